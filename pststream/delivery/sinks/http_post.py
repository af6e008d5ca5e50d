"""Send one HTTP POST of a webhook to a checked address, within a time limit and without redirects or proxies."""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pststream.delivery.sinks.allowed_addresses import Network, is_in_networks, resolve
from pststream.delivery.sinks.contract import SinkDown

MAX_RESPONSE_BYTES = 65_536


@dataclass(frozen=True)
class HttpResponse:
    """The status of a response and its header Retry-After."""

    status: int
    retry_after: str


def post(
    url: str, body: bytes, headers: Mapping[str, str], timeout: float, allowed: tuple[Network, ...] = ()
) -> HttpResponse:
    """Send `body`; the whole exchange takes at most about `timeout` seconds, without the name resolution.

    Raises SinkDown where no response came: its text contains the kind of fault and nothing of the URL.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    address = resolve(host, port, allowed)
    if not secure and not is_in_networks(address, allowed):
        raise SinkDown("http is allowed only in the networks of `networks`; use https", permanent=True)
    connection = _PinnedConnection(host, port, str(address), timeout, secure)
    watchdog = threading.Timer(timeout, connection.cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        response.read(MAX_RESPONSE_BYTES)
        if connection.was_cut:
            raise TimeoutError
        return HttpResponse(response.status, response.headers.get("Retry-After", ""))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SinkDown(_describe(error, connection.was_cut)) from None
    finally:
        watchdog.cancel()
        connection.close()


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to a given address that sends `Host` and checks the certificate for a host name."""

    def __init__(self, host: str, port: int, address: str, timeout: float, secure: bool) -> None:
        super().__init__(host, port, timeout=timeout)
        self.default_port = 443 if secure else 80
        self.was_cut = False
        self._address = address
        self._secure = secure

    def connect(self) -> None:
        """Connect to the address."""
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)
        if self.was_cut:
            raise TimeoutError

    def cut(self) -> None:
        """End the exchange in any state: a server that sends a byte now and then must not block the sender."""
        self.was_cut = True
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


def _describe(error: Exception, was_cut: bool) -> str:
    """Return the kind of a fault, without anything that the other side sent."""
    if was_cut or isinstance(error, TimeoutError):
        return "no response in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
