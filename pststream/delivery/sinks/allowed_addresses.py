"""Resolve the host name of a webhook, and refuse special addresses unless the setting `networks` allows them.

The name is resolved once, here, and the request goes to the checked address: a name that resolves to something else a
moment later (DNS rebinding) changes nothing.

The special networks are those of IANA's two registries of special-purpose addresses (RFC 6890) and the multicast ones.
They are listed here: what `ipaddress` calls global differs between releases of Python.
"""

import ipaddress
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from pststream.delivery.sinks.contract import SinkDown

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_NAT64 = IPv6Network("64:ff9b::/96")

_SPECIAL: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
)  # fmt: skip
"""Networks that are not globally reachable; of IPv6, those inside _UNICAST."""

_REACHABLE: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.9/32", "192.0.0.10/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:3::/32",
        "2001:4:112::/48", "2001:20::/28", "2001:30::/28",
    )
)  # fmt: skip
"""The parts of _SPECIAL that are globally reachable all the same."""

_UNICAST = IPv6Network("2000::/3")
"""The only addresses of IPv6 that IANA assigns to the public internet; loopback, local ones and others are outside."""


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse networks that are separated by blanks. Raises ValueError."""
    return tuple(ipaddress.ip_network(word) for word in text.split())


def resolve(host: str, port: int, allowed: Sequence[Network]) -> Address:
    """Return an address of a host. Raises SinkDown if the host has none, or if one of them is not allowed."""
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
