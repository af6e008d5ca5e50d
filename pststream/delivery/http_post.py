"""One HTTP POST to an address that was judged before: no redirect, no proxy, no cookie, a bound on time and answer."""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pststream.delivery.allowed_addresses import Network, is_named, resolve
from pststream.delivery.contract import SinkDown

MOST_ANSWER = 65_536


@dataclass(frozen=True)
class Answer:
    """The status of an answer, and what its header Retry-After says."""

    status: int
    retry_after: str


def post(
    url: str, body: bytes, headers: Mapping[str, str], timeout: float, allowed: tuple[Network, ...] = ()
) -> Answer:
    """Send `body`; the whole exchange takes at most about `timeout` seconds, the look-up of the name aside.

    Raises SinkDown where no answer came: its text tells the kind of fault and nothing of the URL.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    address = resolve(host, port, allowed)
    if not secure and not is_named(address, allowed):
        raise SinkDown("http is for networks that `networks` names; use https", lasting=True)
    connection = _Pinned(host, port, str(address), timeout, secure)
    watchdog = threading.Timer(timeout, connection.cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        response.read(MOST_ANSWER)
        if connection.was_cut:
            raise TimeoutError
        return Answer(response.status, response.headers.get("Retry-After", ""))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SinkDown(_told(error, connection.was_cut)) from None
    finally:
        watchdog.cancel()
        connection.close()


class _Pinned(http.client.HTTPConnection):
    """A connection to an address, in the name of a host: `Host` and the certificate are those of the name."""

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
        """End the exchange, wherever it stands: a server that sends a byte now and then may not hold us."""
        self.was_cut = True
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


def _told(error: Exception, was_cut: bool) -> str:
    """The kind of a fault, without what the other side sent."""
    if was_cut or isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
