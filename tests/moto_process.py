"""Run moto's server (AWS services for tests) as a separate process on loopback."""

import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTONLYTESTONLY",
    "AWS_SECRET_ACCESS_KEY": "an-aws-key-that-no-log-may-show",
    "AWS_DEFAULT_REGION": "eu-north-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


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
        _wait(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(3000):
        assert process.poll() is None, "moto_server ended"
        try:
            urllib.request.urlopen(f"{url}/moto-api/", timeout=10).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("moto_server does not answer")
