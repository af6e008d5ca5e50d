"""Run servers of tests as separate processes on loopback: moto's (AWS services), and an S3 gateway.

`s3_server` is the gateway where PSTSTREAM_TEST_GATEWAY has its path (`make test-s3`), else moto's server.
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REGION = "eu-north-1"
GATEWAY = os.environ.get("PSTSTREAM_TEST_GATEWAY")
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTONLYTESTONLY",
    "AWS_SECRET_ACCESS_KEY": "an-aws-key-that-no-log-may-show",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}


moto_only = pytest.mark.skipif(bool(GATEWAY), reason="the gateway has no versions, odd keys or short pages")


def free_port() -> int:
    """Return a free port of loopback. Linux gives ports below 32,768 to none that asks for any, so it stays free."""
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def moto_server(port: int | None = None) -> Iterator[str]:
    """Run a moto server until the block ends; yield its address."""
    port = port or free_port()
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.moto_server", "-H", "127.0.0.1", "-p", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(f"{url}/moto-api/", process)
        yield url
    finally:
        process.kill()
        process.wait()


@contextmanager
def s3_gateway(program: str, access: str, secret: str, *options: str) -> Iterator[str]:
    """Run versitygw over a new folder until the block ends, with the keys of its root user; yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "--quiet", "--health=/health", f"--port=127.0.0.1:{(port := free_port())}", *options]
        keys = {"ROOT_ACCESS_KEY_ID": access, "ROOT_SECRET_ACCESS_KEY": secret}
        process = subprocess.Popen([*words, "posix", folder], env=os.environ | keys, stdout=subprocess.DEVNULL)
        try:
            _wait(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


@contextmanager
def s3_server() -> Iterator[str]:
    """Run a server of S3 until the block ends; yield its address."""
    keys = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    with s3_gateway(GATEWAY, *keys, f"--region={REGION}") if GATEWAY else moto_server() as url:
        yield url


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(3000):
        assert process.poll() is None, "the server ended"
        try:
            urllib.request.urlopen(url, timeout=10).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not answer")
