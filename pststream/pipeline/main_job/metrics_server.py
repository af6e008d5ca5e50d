"""Serve the metrics of a home by HTTP while a watcher runs: GET /metrics, one request at a time, nothing else.

https://prometheus.io/docs/instrumenting/writing_exporters. Nothing is served unless an address is given.
"""

import errno
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import LogMessage, Progress
from pststream.base.texts import is_loopback, mask_urls
from pststream.state.home import Home

LOOPBACK = "127.0.0.1"
PATH = "/metrics"

REQUEST_SECONDS = 2.0
"""A client whose request is not complete after this time is disconnected: meanwhile no other client is served."""

END_SECONDS = 3.0
"""Limit of the time that the end of the block waits for a request that is being answered."""


class Address(NamedTuple):
    """Host and port to listen on; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@contextmanager
def serve_metrics(home: Home, address: Address | None, progress: Progress) -> Iterator[Address | None]:
    """Serve the metrics of a home at an address during this block; return the address with its port.

    Raises UsageError if this machine cannot listen there, RetryableError if another process does.
    """
    if address is None:
        yield None
        return
    with _listen(home, address, progress) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
        thread.start()
        listening = Address(address.host, server.server_port)
        progress(f"metrics: http://{listening}{PATH}")
        try:
            yield listening
        finally:
            ending = threading.Thread(target=server.shutdown, daemon=True, name="metrics-end")
            ending.start()
            ending.join(END_SECONDS)


def _listen(home: Home, address: Address, progress: Progress) -> "_Server":
    try:
        return _Server(home, address, progress)
    except OSError as error:
        text = f"metrics: cannot listen on {address}: {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            raise RetryableError(text, "end the process that listens there, or give another port") from error
        raise UsageError(text, "give an address of this machine and a port that is open to you") from error


class _Server(HTTPServer):
    """Renders the metrics of a home for each request."""

    def __init__(self, home: Home, address: Address, progress: Progress) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._home, self._progress, self.host = home, progress, address.host
        self._fails = False
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind the socket; the class HTTPServer would also ask the name service for the name of the host."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error; a client that has disconnected is none."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def render(self) -> tuple[int, str, str]:
        """Return status, content type and text of an answer. The first of several failures is logged."""
        from pststream.reports.commands.metrics import CONTENT_TYPE, render_metrics  # loads what `status` needs

        try:
            text = render_metrics(self._home)
        except Exception as error:
            reason = f"{type(error).__name__}: {(mask_urls(str(error)).splitlines() or [''])[0]}"
            if not self._fails:
                self._progress(LogMessage(f"metrics cannot be rendered: {reason}", level="warning"))
            self._fails = True
            return 503, "text/plain; charset=utf-8", f"the home cannot be read: {reason}\n"
        self._fails = False
        return 200, CONTENT_TYPE, text


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS
    server_version, sys_version = "PSTStream", ""

    def setup(self) -> None:
        """Limit the time of the whole request: `timeout` begins again with each byte that arrives."""
        super().setup()
        self._limit = threading.Timer(REQUEST_SECONDS, self._stop_reading)
        self._limit.daemon = True
        self._limit.start()

    def finish(self) -> None:
        """End the limit of the time."""
        self._limit.cancel()
        super().finish()

    def _stop_reading(self) -> None:
        with suppress(OSError):  # the client has disconnected
            self.connection.shutdown(socket.SHUT_RD)

    def do_GET(self) -> None:
        """Answer a request."""
        if not self._names_this_machine():
            self._answer(421, "text/plain; charset=utf-8", "the request names another host\n")
        elif self.path.partition("?")[0] == PATH:
            self._answer(*self.server.render())
        else:
            self._answer(404, "text/plain; charset=utf-8", f"only {PATH} is served\n")

    def _names_this_machine(self) -> bool:
        """Whether the request is not that of a page whose name was pointed to this machine, for a browser to read it.

        On other addresses than loopback whoever reaches the port may read.
        """
        if not is_loopback(self.server.host):
            return True
        try:
            return is_loopback(urlsplit(f"//{self.headers.get('Host', '')}").hostname or "")
        except ValueError:
            return False

    def log_message(self, format: str, *args: object) -> None:
        """Log no request."""

    def _answer(self, status: int, content_type: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)
