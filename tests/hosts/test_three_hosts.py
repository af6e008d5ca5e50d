"""A master, two workers and a driver that share nothing but a real S3 server find what one machine finds."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pststream.kernels.compile import cache_folder

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("three_hosts.sh")
GATEWAY = ROOT / "build" / "bin" / "versitygw"
PROBE = "ip netns add pst3-probe && ip netns del pst3-probe && unshare --mount --uts --ipc --pid --fork true"


class Hosts:
    """The hosts, by the script that starts them; their files are below `state`."""

    def __init__(self, state: Path) -> None:
        self.state = state
        places = {"STATE": str(state), "CODE": str(ROOT), "AT": str(ROOT), "VENV": sys.prefix}
        self._environment = os.environ | places | {"VERSITYGW": str(GATEWAY)}

    def call(self, *arguments: str, **variables: str) -> None:
        """Run the script, and assert that it succeeds."""
        done = subprocess.run(
            ["bash", SCRIPT, *arguments], env=self._environment | variables, stderr=subprocess.PIPE, text=True
        )
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr[-4000:]}"

    def work(self, *arguments: str, **variables: str) -> None:
        """Run the scenario on the host of the driver."""
        self.call("run", "driver", "python", "-m", "tests.hosts.scenario", *arguments, **variables)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if os.geteuid() or not GATEWAY.exists() or subprocess.run(PROBE, shell=True, capture_output=True).returncode:
        pytest.skip("needs root, network namespaces, and versitygw, which needs Go (make build/bin/versitygw)")
    state = Path(f"/var/tmp/pststream-hosts-{os.getpid()}")
    shutil.copytree(cache_folder(), state / "numba" / cache_folder().name)
    hosts = Hosts(state)
    try:
        hosts.call("start")
        yield hosts
    finally:
        hosts.call("stop")
        shutil.rmtree(state)


def test_three_hosts_find_what_one_machine_finds(hosts: Hosts) -> None:
    """Ingest, match, answer, ask, balance, replay, compare, erase and maintain; one worker is lost, one is added."""
    hosts.work("write", "/tmp/files")
    hosts.work("upload", "/tmp/files", "s3://city/in")
    hosts.work("run", "/tmp/home", "/tmp/files", "/tmp/files", PSTSTREAM_ENGINE="local")
    expected = results(hosts)
    cluster = {"PSTSTREAM_SPARK_MASTER": "spark://10.77.0.3:7077", "PSTSTREAM_ENGINE": "spark"}
    hosts.work("run", "s3://city/home", "s3://city/in", "/tmp/files", **cluster)
    assert results(hosts) == expected
    assert expected["check"] and expected["replay"]["matches_equal"] and expected["left"] == []
    assert len(expected["matches"]) > 100 and len(expected["answers"]["answers"]) > 10
    for name in ("w1", "w2"):
        assert list((hosts.state / name / "root").glob(".cache/pststream/homes/*/spool")), f"{name} has read no object"
    assert not list((hosts.state / "driver" / "root").glob(".cache/pststream/homes/*/spool/*/*"))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(hosts.work, "run", "s3://city/other", "s3://city/in", "/tmp/files", **cluster)
        while not (hosts.state / "store" / "root" / "city" / "other" / "staging").exists() and not running.done():
            time.sleep(0.5)
        hosts.call("kill", "w1")
        hosts.call("add", "w3")
        running.result()
    assert results(hosts) == expected


def results(hosts: Hosts) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((hosts.state / "driver" / "tmp" / "files" / "results.json").read_text())
    return document
