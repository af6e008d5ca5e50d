"""Run a webhook receiver on loopback: an HTTP server that checks signatures, with faults on demand."""

import hashlib
import hmac
import json
import random
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SECRET = "a-secret-that-no-log-may-show"


@dataclass
class Receiver:
    """The received messages, and how to respond.

    status: of every response, unless a fault is drawn: `failing` (503) or `losing` (accepted, then the connection ends
    without a response), each with its probability. refuses: ids of messages that get 400.
    """

    url: str = ""
    status: int = 200
    failing: float = 0.0
    losing: float = 0.0
    seconds: float = 0.0
    drip: bool = False
    refuses: set[str] = field(default_factory=set)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    def answer(self, headers: dict[str, str], body: bytes) -> int:
        """Return the status for a request; 0 ends the connection without a response."""
        self.requests += 1
        time.sleep(self.seconds)
        if self.status != 200:
            return self.status
        if self.draw.random() < self.failing:
            return 503
        check_signature(headers["Pststream-Signature"], body)
        messages = json.loads(body)["messages"]
        if any(message["id"] in self.refuses for message in messages):
            return 400
        self.headers.append(headers)
        self.bodies.append(body)
        self.taken += messages
        return 0 if self.draw.random() < self.losing else 200


def check_signature(header: str, body: bytes) -> None:
    """Check the signature and its age as a receiver should."""
    parts = dict(part.split("=", 1) for part in header.split(","))
    expected = hmac.new(SECRET.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(expected, parts["v1"])
    assert abs(time.time() - int(parts["t"])) < 60


@contextmanager
def receiving(certificate: Path | None = None, **behaviour: Any) -> Iterator[Receiver]:
    """Run a receiver on loopback until the block ends; with a certificate (and its key), by TLS."""
    receiver = Receiver(**behaviour)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.answer(dict(self.headers), body)
            if not status:
                self.close_connection = True
                return
            if receiver.drip:
                self._drip()
                return
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _drip(self) -> None:
            """Send one byte after the other without end."""
            self.wfile.write(b"HTTP/1.0 200 OK\r\nX-Long: ")
            for _ in range(2000):
                time.sleep(0.05)
                self.wfile.write(b"x")

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}/hook"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
