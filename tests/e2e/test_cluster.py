"""A standalone cluster of separate processes gives the same matches as one machine, when nodes die and join.

The same jobs and commands run on a master and two nodes, with the commands and the authentication of
docs/where-it-runs.md; in the middle of a batch one node is killed, executor and all, and another joins with an empty
cache. Nodes and an executor without the secret are refused meanwhile.
"""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from pststream.state.home import Home as State
from pststream.tables.ledgers import Ledger
from tests.bad_store import Uploader
from tests.bucket_home import BucketHome, new_bucket_home, use
from tests.commands import Home
from tests.kill_and_rerun import assert_as_the_twin, assert_same_tables, home_for, written
from tests.lost_rows import PARTS
from tests.moto_process import s3_server
from tests.spark_cluster import DEFAULTS, Cluster, Process, eventually
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


SECRET = "a-secret-that-no-log-may-show"
ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.executor.cores": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "0",
    "spark.decommission.enabled": "true",
}
"""Executors come as tasks wait for them, and leave when their tasks have ended, with what they have shuffled."""


def unfinished(home: Home) -> bool:
    return Ledger(State(home.path)).unfinished_batch() is not None


def has_executor(node: Process) -> bool:
    return node.said("Successfully registered with driver", executors=True) is not None


def begun_homes(folder: Path) -> tuple[WrittenWorld, Home, Home]:
    """Make two homes with a batch and rows that wait for the next ones; the second home has matched them, too."""
    world = written(folder / "files", 31, 2)
    landing = landed(folder / "landing", world)
    home, local = (home_for(folder / name, world) for name in ("home", "local"))
    for one in (home, local):
        one.run("run", landing)
        take_in_the_rest(one, world)
    local.match()
    return world, home, local


@pytest.mark.promise
def test_a_cluster_finds_what_one_machine_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job makes a home in a bucket; a command goes on with one in a shared folder, which began on one machine."""
    world, home, local = begun_homes(tmp_path)
    with s3_server() as url, Cluster(tmp_path / "cluster", secret=SECRET) as cluster:
        Uploader(url).new_bucket()
        address = use(url, monkeypatch)
        nodes = cluster.add("first", "second")
        bucket = in_a_bucket(cluster, address, world, tmp_path)
        strangers = [cluster.stranger("other", "another-secret"), cluster.stranger("none", None)]
        built = [node.segments() for node in nodes]
        assert all(built), "a node did no work"
        home.set(max_objects=3)
        running = cluster.start("match", PSTSTREAM_HOME=str(home.path))
        strangers.append(cluster.stranger_at_driver(nodes[0]))
        eventually(lambda: nodes[1].segments() != built[1], "the second node does not take part", pause=0.005)
        lose_one_gain_one(cluster, home)
        assert len(json.loads(running.finish())["batches"]) > 3
        assert cluster.nodes["third"].segments(), "the node that joined has built nothing"
        assert not list(cluster.folder.glob("driver-*/cache/segments-*")), "nodes take the driver's folder for theirs"
        assert_no_stranger_was_let_in(cluster, strangers)
        assert bucket.exported() == local.exported()
        assert_as_the_twin(bucket, world.log, world.lateness_seconds)
    assert_same_tables(home, local)
    assert_as_the_twin(home, world.log, world.lateness_seconds)


@pytest.mark.deep
def test_an_executor_is_decommissioned_while_a_run_goes_on(tmp_path: Path) -> None:
    """With dynamic allocation, one of two executors is decommissioned during the run; the tables stay equal."""
    world, home, local = begun_homes(tmp_path)
    home.set(max_objects=2)
    with Cluster(tmp_path / "cluster", properties=DEFAULTS | ALLOCATION) as cluster:
        nodes = cluster.add("first", "second")
        running = cluster.start("match", PSTSTREAM_HOME=str(home.path))
        eventually(lambda: all(map(has_executor, nodes)), "a node has no executor")
        eventually(lambda: any(node.segments() for node in nodes), "no node does any work")
        leaving, other = sorted(nodes, key=lambda node: not node.segments())
        (executor,) = leaving.executors()
        os.kill(executor, signal.SIGPWR)
        eventually(lambda: executor not in leaving.executors(), "the executor does not leave")
        assert running.runs, "the run has ended before its executor"
        assert len(json.loads(running.finish())["batches"]) > 3
        assert leaving.said(
            r"Decommission executor[\s\S]*No running tasks, no block migration configured, stopping", executors=True
        )
        assert not other.said("Decommission executor", executors=True)
    assert_same_tables(home, local)
    assert_as_the_twin(home, world.log, world.lateness_seconds)


@pytest.mark.deep
def test_an_executor_is_lost_with_rows_that_differ_in_each_try(tmp_path: Path) -> None:
    """Its task sends again what it has sent to parts that are not received yet; those that are stay."""
    of_hosts = DEFAULTS | {"spark.shuffle.readHostLocalDisk": "false"}  # all nodes of the test are one host
    with Cluster(tmp_path / "cluster", properties=of_hosts) as cluster:
        nodes = cluster.add("first", "second")
        (shared := tmp_path / "shared").mkdir()
        running = cluster.run(f"exec python -m tests.lost_rows {shared}")
        eventually(lambda: (shared / "ended").exists(), "no part is received")
        (executor,) = nodes[0].executors()
        os.kill(executor, signal.SIGKILL)
        eventually(lambda: running.said("Lost executor") is not None, "the driver does not miss the executor")
        (shared / "lost").touch()
        assert json.loads(running.finish()) == [[part, [0, 1]] for part in range(PARTS)]


def assert_no_stranger_was_let_in(cluster: Cluster, strangers: list[Process]) -> None:
    """Neither master nor driver accepts a process without the secret, and no log has the secret."""
    other, none, executor = strangers
    assert other.said("Failed to connect to master") and none.said("Expected SaslMessage")
    assert executor.said("Expected SaslMessage") and not executor.said("Successfully registered")
    assert cluster.registered == len(cluster.nodes) == 3
    logs = [file for name in ("log", "out", "stderr", "stdout") for file in cluster.folder.rglob(name)]
    assert logs and not [log for log in logs if SECRET in log.read_text("utf-8", "replace")]


def in_a_bucket(cluster: Cluster, address: str, world: WrittenWorld, folder: Path) -> BucketHome:
    """Ingest all files into a home in a bucket, make the first plan and match, by spark-submit on nodes with access to
    the store.
    """
    settings = {"planner": "kd_tree", "workers": 3, "lateness_seconds": world.lateness_seconds}
    home, landing = new_bucket_home(address, folder, **settings), landed(folder / "all", world, 2)
    submitted = cluster.start("submit", PSTSTREAM_HOME=str(home.path), PSTSTREAM_LANDING=str(landing))
    assert '"batch_id": 1' in submitted.finish()
    return home


def landed(folder: Path, world: WrittenWorld, files: int = 1) -> Path:
    """Make a landing folder with the first files of each kind."""
    for kind, paths in (("objects", world.objects), ("requests", world.requests)):
        (folder / kind).mkdir(parents=True)
        for path in paths[:files]:
            shutil.copy(path, folder / kind)
    return folder


def take_in_the_rest(home: Home, world: WrittenWorld) -> Any:
    home.ingest("requests", world.requests[1:])
    home.ingest("objects", world.objects[1:])


def lose_one_gain_one(cluster: Cluster, home: Home) -> None:
    """Suspend the second node until a batch waits for it and another node has joined; then kill it."""
    second = cluster.nodes["second"]
    second.signal(signal.SIGSTOP)
    (third,) = cluster.add("third")
    eventually(lambda: has_executor(third), "the node that joined was given no executor")
    eventually(lambda: unfinished(home), "no batch is under way")
    second.kill()
