"""Run an object store with injected faults: moto's server behind a scripted proxy on loopback."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import boto3

from tests.moto_process import CREDENTIALS, GATEWAY, REGION

BUCKET = "landing-bucket"
ERROR = "<Error><Code>{}</Code><Message>{}</Message></Error>"
OF_ONE_WAY = ("transfer-encoding", "expect", "connection")
"""Headers that concern only the connection to the proxy."""

CODES = {403: "AccessDenied", 404: "NotFound", 500: "InternalError", 501: "NotImplemented", 503: "SlowDown"}


@dataclass
class BadStore:
    """A proxy with faults.

    fault: called with method and target (path and query) of each request; returns an HTTP status to answer with, "cut"
    (the headers and half of the body, then the end), "hang" (no answer for `seconds`), or None. before: called in the
    same way before a request is forwarded. page: number of keys on a page of a listing (a
    gateway, which compares signatures, has its own). server: the URL of the server
    behind the proxy.
    """

    url: str = ""
    server: str = ""
    fault: Callable[[str, str], int | str | None] = lambda method, target: None
    before: Callable[[str, str], None] = lambda method, target: None
    seconds: float = 2.0
    page: int = 1000
    requests: list[tuple[str, str]] = field(default_factory=list)

    def recover(self) -> None:
        """Remove all faults and scripts."""
        self.fault = self.before = lambda method, target: None
        self.requests.clear()

    def read_keys(self) -> list[str]:
        """Return the keys of the objects whose bodies were requested, sorted."""
        return sorted(urlsplit(t).path.removeprefix(f"/{BUCKET}/") for m, t in self.requests if is_body(m, t))


def is_body(method: str, target: str) -> bool:
    """Whether a request reads an object."""
    return method == "GET" and urlsplit(target).path.startswith(f"/{BUCKET}/")


def is_listing(method: str, target: str) -> bool:
    """Whether a request reads a page of a listing."""
    return method == "GET" and "list-type=2" in target


class _Handler(BaseHTTPRequestHandler):
    """Forwards the requests of one connection, with the faults of the store."""

    server: "_Proxy"
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def forward(self) -> None:
        store, target, sent = self.server.store, self.path, self.request_body()
        store.requests.append((self.command, target))
        fault = store.fault(self.command, target)
        if isinstance(fault, int):
            self.answer(fault, {}, ERROR.format(CODES[fault], "no").encode())
            return
        if fault == "hang":
            time.sleep(store.seconds)
            self.close_connection = True
            return
        store.before(self.command, target)
        if is_listing(self.command, target):
            target += f"&max-keys={store.page}" if not GATEWAY and "max-keys" not in target else ""
        connection = http.client.HTTPConnection(urlsplit(store.server).netloc, timeout=30)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in OF_ONE_WAY}
        connection.request(self.command, target, sent, kept)
        response = connection.getresponse()
        body = response.read()
        headers = {name: value for name, value in response.getheaders() if name.lower() != "transfer-encoding"}
        self.answer(response.status, headers, body, cut=fault == "cut")
        connection.close()

    def request_body(self) -> bytes:
        """Read the body of a request: of a given length, or in chunks, as Arrow sends its uploads."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

    def answer(self, status: int, headers: dict[str, str], body: bytes, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = cut

    def log_message(self, *arguments: Any) -> None:
        pass


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store: BadStore) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = store


@contextmanager
def bad_store(server: str) -> Iterator[BadStore]:
    """Run a proxy in front of `server` until the block ends."""
    store = BadStore(server=server)
    proxy = _Proxy(store)
    store.url = f"http://127.0.0.1:{proxy.server_port}"
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield store
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


class Uploader:
    """A producer that writes to the server directly, without the proxy."""

    def __init__(self, server: str) -> None:
        keys = {name.lower(): CREDENTIALS[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        self._server = server
        self.s3 = boto3.session.Session(**keys, region_name="eu-north-1").client("s3", endpoint_url=server)

    def new_bucket(self) -> None:
        """Create the bucket, empty; moto forgets all that it has, through which it looks for each listing."""
        if not GATEWAY:
            urlopen(Request(f"{self._server}/moto-api/reset", method="POST"), timeout=30).close()
        try:
            self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        except self.s3.exceptions.BucketAlreadyOwnedByYou:
            for one in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
                self.s3.delete_object(Bucket=BUCKET, Key=one["Key"])

    def put(self, key: str, content: bytes) -> str:
        """Upload an object; return its ETag."""
        etag: str = self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)["ETag"]
        return etag

    def put_folder(self, folder: Path, prefix: str) -> None:
        """Upload all files of a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())

    def begin(self, key: str, content: bytes = b"x") -> str:
        """Start a multipart upload and upload one part; return the upload id."""
        upload: str = self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        self.s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=1, Body=content)
        return upload
