"""Webhooks against a real server on loopback: signature, refused messages, errors, addresses."""

import datetime as dt
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
from pststream.delivery.sinks.webhook import WebhookSink
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


@pytest.mark.parametrize("status", [301, 302, 307, 401, 403, 404, 410])
def test_client_errors_are_permanent(status: int) -> None:
    with receiving(status=status) as receiver:
        error = down(hook(receiver.url))
    assert (str(error), error.permanent, receiver.requests) == (f"HTTP status {status}", True, 1)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_temporary_errors(status: int) -> None:
    with receiving(status=status) as receiver:
        assert not down(hook(receiver.url)).permanent


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
