"""Webhooks against a real server on loopback: signature, refused messages, errors; only allowed addresses count."""

import datetime as dt
import ipaddress
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pststream.delivery.sinks.contract import Message, MessageBatch, SinkDown
from pststream.delivery.sinks.settings import SinkSettings
from pststream.delivery.sinks.webhook import WebhookSink, is_allowed, parse_networks, resolve
from tests.receiver import SECRET, receiving


def message(name: str) -> Message:
    return Message(name, "matched", "s1", json.dumps({"id": name, "text": "ü \ud800"}).encode())


def batch(*names: str) -> MessageBatch:
    return MessageBatch("00000001-000000000", tuple(message(name) for name in names))


def hook(url: str, **changes: Any) -> WebhookSink:
    keys: dict[str, Any] = {"networks": "127.0.0.0/8", "timeout_seconds": 30.0, "secret": SECRET} | changes
    return WebhookSink(SinkSettings("alerts", "webhook", url, **keys))


def down(sink: WebhookSink) -> SinkDown:
    """How the delivery of a batch fails."""
    with pytest.raises(SinkDown) as caught:
        sink.deliver(batch("a"))
    assert SECRET not in str(caught.value) and "127.0.0.1" not in str(caught.value)
    return caught.value


def test_a_request_is_signed_json() -> None:
    with receiving() as receiver:
        assert hook(receiver.url).deliver(batch("a", "b")) == []
    assert json.loads(receiver.bodies[0]) == {
        "batch": "00000001-000000000",
        "messages": [{"id": "a", "text": "ü \ud800"}, {"id": "b", "text": "ü \ud800"}],
    }
    headers = receiver.headers[0]
    assert headers["Host"] == receiver.url.split("/")[2]
    assert SECRET not in str(headers)


def test_other_messages_have_another_idempotency_key() -> None:
    with receiving() as receiver:
        for names in ("ab", "ab", "ac"):
            hook(receiver.url).deliver(batch(*names))
    sent: dict[str, set[str]] = {}
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        ids = ",".join(message["id"] for message in json.loads(body)["messages"])
        sent.setdefault(headers["Idempotency-Key"], set()).add(ids)
    assert [len(ids) for ids in sent.values()] == [1, 1]


@pytest.mark.parametrize("bad", [set(), {"c"}, {"a", "h"}, {"d", "e"}, set("abcdefgh")])
def test_the_messages_at_fault_are_found(bad: set[str]) -> None:
    with receiving(refuses=bad) as receiver:
        refusals = hook(receiver.url).deliver(batch(*"abcdefgh"))
    assert [refusal.message.id for refusal in refusals] == sorted(bad)
    assert {refusal.reason for refusal in refusals} <= {"HTTP status 400"}
    assert [message["id"] for message in receiver.taken] == sorted(set("abcdefgh") - bad)


PERMANENT = (301, 302, 307, 401, 403, 404, 410)


@pytest.mark.parametrize("status", [*PERMANENT, 408, 425, 429, 500, 502, 503, 504])
def test_errors_are_permanent_or_temporary(status: int) -> None:
    with receiving(status=status) as receiver:
        error = down(hook(receiver.url))
    assert (str(error), error.permanent, receiver.requests) == (f"HTTP status {status}", status in PERMANENT, 1)


def test_no_response() -> None:
    with receiving(losing=1.0) as receiver:
        assert not down(hook(receiver.url)).permanent
    assert "refused" in str(down(hook(receiver.url)))


@pytest.mark.parametrize("behaviour", [{"seconds": 30.0}, {"drip": True}])
def test_a_slow_response_is_cut(behaviour: dict[str, Any]) -> None:
    with receiving(**behaviour) as receiver:
        began = time.monotonic()
        assert str(down(hook(receiver.url, timeout_seconds=0.4))) == "no response in time"
        assert time.monotonic() - began < 60


def test_private_addresses_are_refused() -> None:
    with receiving() as receiver:
        for networks in ("", "10.0.0.0/8", "127.0.0.2/32"):
            error = down(hook(receiver.url, networks=networks))
            assert error.permanent and "private" in str(error)
        assert receiver.requests == 0


def test_the_request_goes_to_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS resolves to another address at each look-up: there is no second look-up."""
    with receiving() as receiver:
        port = int(receiver.url.split(":")[2].split("/")[0])
        looked_up = []
        real = socket.getaddrinfo

        def rebinding(host: str, *arguments: Any, **more: Any) -> Any:
            if host != "rebinding.example":
                return real(host, *arguments, **more)
            looked_up.append(host)
            address = "127.0.0.1" if len(looked_up) == 1 else "127.0.0.9"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        assert hook(f"http://rebinding.example:{port}/x").deliver(batch("a")) == []
    assert looked_up == ["rebinding.example"]
    assert receiver.headers[0]["Host"] == f"rebinding.example:{port}"


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiving() as receiver:
        assert hook(receiver.url).deliver(batch("a")) == []


def test_plain_http_only_to_allowed_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    public = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.88.99.7", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(*public[0][:4], ("8.8.8.8", 80))])
    error = down(hook("http://a.example/x"))
    assert error.permanent and "use https" in str(error)


def test_without_a_secret_nothing_is_sent() -> None:
    with receiving() as receiver:
        error = down(hook(receiver.url, secret=""))
    assert error.permanent and "PSTSTREAM_SINK_ALERTS_SECRET" in str(error) and receiver.requests == 0


def test_a_server_without_tls_receives_nothing_in_clear_text() -> None:
    with receiving() as receiver:
        assert "TLS" in str(down(hook(receiver.url.replace("http:", "https:"))))
        assert receiver.requests == 0


def certificate_of(name: str, folder: Path) -> Path:
    """A self-signed certificate of a host and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(named, named, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "server.pem"
    file.write_bytes(private + made.public_bytes(pem))
    return file


def test_tls_is_checked_for_the_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The address is the one that was judged, the certificate has to be that of the name."""
    certificate = certificate_of("hooks.example", tmp_path)
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: real(host.replace("hooks.example", "127.0.0.1"), *a, **k)
    )
    with receiving(certificate) as receiver:
        named = receiver.url.replace("127.0.0.1", "hooks.example")
        assert "CERTIFICATE_VERIFY_FAILED" in str(down(hook(named)))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert hook(named).deliver(batch("a")) == []
        assert "CERTIFICATE_VERIFY_FAILED" in str(down(hook(receiver.url)))
        assert receiver.requests == 1


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
