"""Which addresses a webhook may reach: public ones, and networks that the operator named.

The name is resolved once, here, and the request goes to the address that was judged: a name that resolves to something
else a moment later (DNS rebinding) changes nothing.
"""

import ipaddress
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from pststream.delivery.contract import SinkDown

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_NAT64 = IPv6Network("64:ff9b::/96")


def networks_of(text: str) -> tuple[Network, ...]:
    """Networks parted by blanks."""
    return tuple(ipaddress.ip_network(part) for part in text.split())


def resolve(host: str, port: int, allowed: Sequence[Network]) -> Address:
    """The address of a host. Raises SinkDown if it has none, or if one of them may not be reached."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise SinkDown("the host's name cannot be resolved") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not all(may_reach(address, allowed) for address in addresses):
        raise SinkDown(
            "the target is at a private, loopback, link-local or otherwise special address; "
            "if it is to be reached, name its network in `networks`",
            lasting=True,
        )
    return addresses[0]


def may_reach(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether an address is public or in a network that is allowed; of one that wraps another, both are judged."""
    if is_named(address, allowed):
        return True
    inner = _inner(address)
    return is_public(address) if inner is None else may_reach(inner, allowed)


def is_named(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether an address is in one of the networks."""
    return any(address.version == network.version and address in network for network in allowed)


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet's."""
    special = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not special and not (isinstance(address, IPv6Address) and address.is_site_local)


def _inner(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for (mapped, 6to4, NAT64), if it does."""
    if not isinstance(address, IPv6Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
