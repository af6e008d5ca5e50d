"""Only allowed addresses can be reached, and a name is resolved once."""

import ipaddress
import socket
from typing import Any

import pytest

from pststream.delivery.sinks.contract import SinkDown
from pststream.delivery.sinks.webhook import is_allowed, parse_networks, resolve

REFUSED = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1
192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
:: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1::
2002:a00:1:: fe80::1 fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 100::1 fec0::1
""".split()

IANA_REFUSED = """
0.255.255.255 100.127.255.255 192.0.0.0 192.0.0.7 192.0.0.8 192.0.0.11 192.0.0.170 192.0.0.171 192.0.0.255 192.0.2.255
192.88.99.1 192.88.99.255 198.19.255.255 247.1.2.3
64:ff9b::c000:8 64:ff9b::c058:6301 64:ff9b:1::808:808 64:ff9b:1:ffff::1 100:0:0:1::1 2001::1 2001:0:808:808::1
2001:1::4 2001:2::1 2001:10::1 2001:1ff:ffff::1 2001:db8:ffff::1 2002:c000:8:: 2002:c0a8:101::1 3fff::1
3fff:fff:ffff::1 5f00::1 5f00:ffff::1 4000::1 8000::1 ::808:808 ::ffff:0:808:808 fdff::1 febf::1 feff::1 1::1
""".split()
"""Addresses of IANA's registries, and of blocks that it has not assigned, that are not globally reachable."""

IANA_PUBLIC = """
1.0.0.1 9.255.255.255 100.63.255.255 100.128.0.1 192.0.0.9 192.0.0.10 192.0.1.1 192.31.196.1 192.52.193.1 192.175.48.1
192.88.98.1 192.88.100.1 198.17.255.255 198.20.0.1 223.255.255.255
2001:1::1 2001:1::2 2001:1::3 2001:3::1 2001:4:112::1 2001:20::1 2001:2f:ffff::1 2001:30::1 2001:3f:ffff::1 2001:200::1
2001:db7::1 2001:db9::1 2620:4f:8000::1 3ffe:ffff::1 2a00:1450:4001::1 64:ff9b::c000:9
""".split()
"""Addresses beside these, and entries of the registries that are globally reachable."""

PUBLIC = "1.1.1.1 8.8.8.8 93.184.216.34 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::".split()


@pytest.mark.parametrize("text", REFUSED + IANA_REFUSED)
def test_special_addresses_are_refused_unless_allowed(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_allowed(address, ())
    assert is_allowed(address, (ipaddress.ip_network(text),))


@pytest.mark.parametrize("text", PUBLIC + IANA_PUBLIC)
def test_public_addresses_are_allowed(text: str) -> None:
    assert is_allowed(ipaddress.ip_address(text), ())


def test_no_release_of_python_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases of Python differ in `is_global` and `is_private`: the check reads neither."""
    for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        for name in ("is_global", "is_private", "is_reserved"):
            monkeypatch.setattr(kind, name, property(lambda address: pytest.fail("the answer of a release was asked")))
    assert not is_allowed(ipaddress.ip_address("192.0.0.8"), ())
    assert not is_allowed(ipaddress.ip_address("3fff::1"), ())
    assert is_allowed(ipaddress.ip_address("2606:4700::1111"), ())


def test_an_ipv4_address_inside_ipv6_can_be_allowed() -> None:
    allowed = parse_networks("10.0.0.0/8  fd00::/8")
    assert is_allowed(ipaddress.ip_address("::ffff:10.1.2.3"), allowed)
    assert is_allowed(ipaddress.ip_address("fd12::1"), allowed)
    assert not is_allowed(ipaddress.ip_address("::ffff:192.168.1.1"), allowed)


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Let every name resolve to these addresses; return the resolved names."""
    asked: list[str] = []

    def fake_getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", fake_getaddrinfo)
    return asked


def test_one_refused_address_of_a_host_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "8.8.8.8", "127.0.0.1")
    with pytest.raises(SinkDown, match="private") as caught:
        resolve("rebinding.example", 443, ())
    assert caught.value.permanent and "rebinding" not in str(caught.value)
    answers(monkeypatch, "8.8.8.8", "8.8.4.4")
    assert str(resolve("a.example", 443, ())) == "8.8.8.8"


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "localhost."])
def test_other_spellings_of_loopback(host: str) -> None:
    with pytest.raises(SinkDown):
        resolve(host, 443, ())


def test_an_unknown_host() -> None:
    with pytest.raises(SinkDown, match="cannot be resolved") as caught:
        resolve("token-in-a-name.invalid", 443, ())
    assert not caught.value.permanent and "token" not in str(caught.value)
