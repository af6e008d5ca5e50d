"""A master, two workers and a driver that share nothing but a real S3 server find what one machine finds."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.hosts.hosts import MASTER, Hosts, started

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with started() as hosts:
        hosts.work("write", "/tmp/files")
        hosts.work("upload", "/tmp/files", "s3://city/in")
        yield hosts


@pytest.fixture(scope="module")
def expected(hosts: Hosts) -> dict[str, Any]:
    """What the host of the driver finds alone, with home and landing folder on its own disk."""
    hosts.work("run", "/tmp/home", "/tmp/files", "/tmp/files", PSTSTREAM_ENGINE="local")
    found = results(hosts)
    assert found["check"] and found["replay"]["matches_equal"] and found["left"] == []
    assert len(found["matches"]) > 100 and len(found["answers"]["answers"]) > 10
    return found


def test_three_hosts_find_what_one_machine_finds(hosts: Hosts, expected: dict[str, Any]) -> None:
    """Ingest, match, answer, ask, balance, replay, compare, erase and maintain."""
    hosts.work("run", "s3://city/home", "s3://city/in", "/tmp/files", **MASTER)
    assert results(hosts) == expected
    for name in ("w1", "w2"):
        assert list((hosts.state / name / "root").glob(".cache/pststream/homes/*/spool")), f"{name} has read no object"
    assert not list((hosts.state / "driver" / "root").glob(".cache/pststream/homes/*/spool/*/*"))


def test_a_worker_host_is_lost_and_another_added(hosts: Hosts, expected: dict[str, Any]) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(hosts.work, "match", "s3://city/other", "s3://city/in", "/tmp/files", **MASTER)
        while not (hosts.state / "store" / "root" / "city" / "other" / "staging").exists() and not running.done():
            time.sleep(0.5)
        hosts.call("kill", "w1")
        hosts.call("add", "w3")
        running.result()
    found = results(hosts)
    assert found == {name: expected[name] for name in found} and found["check"] and found["matches"]
    assert list((hosts.state / "w3" / "root").glob(".cache/pststream/homes/*")), "the host that joined has done nothing"


def results(hosts: Hosts) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((hosts.state / "driver" / "tmp" / "files" / "results.json").read_text())
    return document
