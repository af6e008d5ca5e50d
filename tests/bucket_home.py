"""Make homes in a bucket of moto's server, behind a proxy with faults on demand."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pststream.storage.registry import files_at
from tests.bad_store import BUCKET, BadStore, Uploader, bad_store
from tests.commands import Home
from tests.moto_process import CREDENTIALS, s3_server


@contextmanager
def store_on_loopback() -> Iterator[BadStore]:
    """Run a server with the bucket, and the proxy before it, until the block ends."""
    with s3_server() as url, bad_store(url) as store:
        Uploader(url).new_bucket()
        yield store


def use(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point AWS's standard chain to the store at a URL; return an unused address in its bucket."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": url, "AWS_MAX_ATTEMPTS": "3"}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


class BucketHome(Home):
    """A home in a bucket with the methods of a home in a folder; `folder` gets its exports."""

    path: Any

    def __init__(self, address: str, folder: Path) -> None:
        self.path, self.folder = address, folder

    def set(self, **settings: Any) -> None:
        files = files_at(self.path)
        lines = files.read("pststream.toml").decode().splitlines()
        kept = [line for line in lines if line.split(" = ")[0] not in settings]
        text = "\n".join([*(f"{k} = {json.dumps(v)}" for k, v in settings.items()), *kept]) + "\n"
        files.write("pststream.toml", text.encode())

    def add_sink(self, name: str, **keys: Any) -> None:
        files = files_at(self.path)
        lines = [f"[sinks.{name}]", *(f"{k} = {json.dumps(v)}" for k, v in keys.items())]
        files.write("pststream.toml", files.read("pststream.toml") + ("\n".join(lines) + "\n").encode())

    @property
    def exports(self) -> Path:
        return self.folder / "of-the-bucket.parquet"


def new_bucket_home(address: str, folder: Path, **settings: Any) -> BucketHome:
    """Make a home in a bucket with some settings changed."""
    home = BucketHome(address.replace("s3://", "s3a://"), folder)
    home.run("init")
    home.path = address
    home.set(**settings)
    return home
