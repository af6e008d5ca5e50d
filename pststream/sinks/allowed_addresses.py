"""Resolve the host name of a webhook, and refuse private addresses unless the setting `networks` allows them.

The name is resolved once, here, and the request goes to the checked address: a name that resolves to something else a
moment later (DNS rebinding) changes nothing.
"""

import ipaddress
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from pststream.sinks.contract import SinkDown

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_NAT64 = IPv6Network("64:ff9b::/96")


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
    """Whether an address belongs to the public internet."""
    special = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not special and not (isinstance(address, IPv6Address) and address.is_site_local)


def _inner_address(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for (mapped, 6to4, NAT64), if any."""
    if not isinstance(address, IPv6Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
