"""Deliver to a webhook: post batches as signed JSON to a checked address, and halve a rejected batch.

    {"batch": "<id>", "messages": [{"id": …, "kind": …, …}, …]}

`Idempotency-Key` identifies the messages of a request: the same messages are sent again under the same key, other
messages never are, also after settings have changed the size of batches.

2xx: accepted. 400, 413 and 422 mean that the content is at fault: the batch is halved until the messages at fault are
alone, and these are refused. Any other status (redirects are not followed) means that the sink is down.
"""

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

from pststream import __version__
from pststream.base import names
from pststream.base.errors import SettingError
from pststream.delivery.sinks.contract import MessageBatch, Refusal, SinkDown, SinkKind
from pststream.delivery.sinks.settings import SinkSettings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_NAT64 = IPv6Network("64:ff9b::/96")


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse networks that are separated by blanks. Raises ValueError."""
    return tuple(ipaddress.ip_network(word) for word in text.split())


_SPECIAL = parse_networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24"
    " 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    " 2001::/23 2001:db8::/32 2002::/16 3fff::/20"
)
"""Networks that are not globally reachable; of IPv6, those inside _UNICAST.

They are those of IANA's registries of special-purpose addresses (RFC 6890) and the multicast ones. What `ipaddress`
calls global differs between releases of Python.
"""

_REACHABLE = parse_networks(
    "192.0.0.9/32 192.0.0.10/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/28"
    " 2001:30::/28"
)
"""The parts of _SPECIAL that are globally reachable all the same."""

_UNICAST = IPv6Network("2000::/3")
"""The only addresses of IPv6 that IANA assigns to the public internet; loopback, local ones and others are outside."""


def resolve(host: str, port: int, allowed: Sequence[Network]) -> Address:
    """Return an address of a host. Raises SinkDown if the host has none, or if one of them is not allowed.

    The request goes to this address, so a name that resolves to another one later (DNS rebinding) changes nothing.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise SinkDown("the host's name cannot be resolved") from None
    addresses = [ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in infos]
    if not all(is_allowed(address, allowed) for address in addresses):
        raise SinkDown(
            "the target is at a private, loopback, link-local or otherwise special address; "
            "to allow it, add its network to `networks`",
            permanent=True,
        )
    return addresses[0]


def is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether an address is public or in an allowed network; an IPv4 address inside an IPv6 one is checked too."""
    if is_in_networks(address, allowed):
        return True
    inner = _inner_address(address)
    return is_public(address) if inner is None else is_allowed(inner, allowed)


def is_in_networks(address: Address, networks: Sequence[Network]) -> bool:
    """Whether an address is in one of the networks."""
    return any(address.version == network.version and address in network for network in networks)


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet; the same in each release of Python."""
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return is_in_networks(address, _REACHABLE) or not is_in_networks(address, _SPECIAL)


def _inner_address(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for (mapped, 6to4, NAT64), if any."""
    if not isinstance(address, IPv6Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


MAX_RESPONSE_BYTES = 65_536


@dataclass(frozen=True)
class HttpResponse:
    """The status of a response and its header Retry-After."""

    status: int
    retry_after: str


def post(
    url: str, body: bytes, headers: Mapping[str, str], timeout: float, allowed: tuple[Network, ...] = ()
) -> HttpResponse:
    """Send `body`, without redirects or proxies, in about `timeout` seconds at most.

    The name resolution is not part of that time. Raises SinkDown where no response came: its text contains the kind of
    fault and nothing of the URL.
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


HEADER = "Pststream-Signature"


def sign(secret: str, seconds: int, body: bytes) -> str:
    """Return the value of the signature header: t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "<t>.<body>">.

    A receiver that refuses old times also refuses an intercepted request that is sent again later.
    """
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


CONTENT_FAULTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
TEMPORARY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
LONGEST_PAUSE = 3600.0
"""Seconds."""


class WebhookSink:
    """Posts batches to a URL."""

    max_bytes = 1_000_000
    lanes = 1

    def __init__(self, settings: SinkSettings, clock: Callable[[], float] = time.time) -> None:
        self.max_messages = settings.messages or 100
        self._settings = settings
        self._allowed = parse_networks(settings.networks)
        self._clock = clock

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Post a batch; refused messages are found by halving."""
        if not self._settings.secret:
            raise SinkDown(_missing_secret(self._settings), permanent=True)
        return self._post(batch)

    def _post(self, batch: MessageBatch) -> list[Refusal]:
        messages = batch.messages
        body = b'{"batch":"%s","messages":[%s]}' % (batch.id.encode(), b",".join(m.body for m in messages))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"pststream/{__version__}",
            "Idempotency-Key": hashlib.sha256("\n".join(m.id for m in messages).encode()).hexdigest(),
            HEADER: sign(self._settings.secret, int(self._clock()), body),
        }
        response = post(self._settings.target, body, headers, self._settings.timeout_seconds, self._allowed)
        batch.on_response()
        if 200 <= response.status < 300:
            return []
        if response.status not in CONTENT_FAULTS:
            permanent = response.status < 500 and response.status not in TEMPORARY
            # The other form of Retry-After, a date, is left to the back-off.
            asked = min(float(response.retry_after), LONGEST_PAUSE) if response.retry_after.isdecimal() else 0.0
            raise SinkDown(f"HTTP status {response.status}", wait_seconds=asked, permanent=permanent)
        if len(messages) == 1:
            return [Refusal(messages[0], f"HTTP status {response.status}")]
        half = len(messages) // 2
        first, second = (
            replace(batch, id=f"{batch.id}.{n}", messages=some)
            for n, some in enumerate((messages[:half], messages[half:]))
        )
        return self._post(first) + self._post(second)


def _missing_secret(settings: SinkSettings) -> str:
    return f"it has no secret: set {names.SINK_VARIABLES}{settings.name.upper()}_SECRET"


def _check_settings(settings: SinkSettings, in_file: bool) -> None:
    """Check the URL and the networks. Errors quote no target, which may contain a token."""
    section = f"sinks.{settings.name}"
    try:
        url = urlsplit(settings.target)
        complete = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        complete = False
    if not complete:
        raise SettingError(f"{section}.target", "is not a URL", "give https://host/path")
    if url.password is not None or url.username is not None:
        hint = "put a token in the path or query, and set the target in the environment"
        raise SettingError(f"{section}.target", "contains a user or a password, which webhooks do not accept", hint)
    if in_file and url.query:
        hint = f"a query may contain a token: set {names.SINK_VARIABLES}{settings.name.upper()}_TARGET instead"
        raise SettingError(f"{section}.target", "has a query, and is in a file", hint)
    for text in settings.networks.split():
        try:
            ipaddress.ip_network(text)
        except ValueError:
            raise SettingError(f"{section}.networks", f"{text!r} is not a network", "write it as 10.1.0.0/16") from None


def _find_delivery_obstacle(settings: SinkSettings) -> str:
    if not settings.secret:
        return _missing_secret(settings)
    parts = urlsplit(settings.target)
    try:
        resolve(parts.hostname or "", parts.port or 443, parse_networks(settings.networks))
    except SinkDown as error:
        return str(error)
    return ""


KIND = SinkKind("webhook", "a URL", WebhookSink, _find_delivery_obstacle, _check_settings)
