"""Run a standalone Spark cluster on loopback: master and nodes as processes, by the commands of docs/where-it-runs.md.

Each node has its own working directory, disk for shuffles and cache. Nodes share the tests' Python and code, as nodes
with one image do, and have compiled kernels, as the image has, but no index segments.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pststream.kernels.compile import cache_folder
from tests.docs.fences import blocks
from tests.lean_jvm import LEAN
from tests.moto_process import free_port

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "where-it-runs.md"
LOOPBACK = "127.0.0.1"
WAIT_SECONDS = 300
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
DEFAULTS = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "3",
    "spark.scheduler.minRegisteredResourcesRatio": "0.6",  # two of three
    "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{WAIT_SECONDS}s",
    "spark.shuffle.io.retryWait": "1s",
    "spark.network.timeout": f"{WAIT_SECONDS}s",  # a suspended node is not given up
}


def command(name: str) -> str:
    """Return the block of the document whose fence ends with NAME, as ```bash NAME."""
    (block,) = [block for block in blocks(DOCUMENT) if name in block.words[1:]]
    return block.text


def surroundings(disk: Path, **variables: str) -> dict[str, str]:
    """Make the environment of a process of the cluster, without the settings of this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PSTSTREAM_", "SPARK_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "HOST": LOOPBACK, "UI_PORT": "0"}
    return kept | own | {"DISK": str(disk)} | variables


def eventually(condition: Callable[[], bool], what: str, pause: float = 0.1) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(pause)


class Process:
    """A process of the cluster with its child processes, in a separate folder."""

    def __init__(self, program: str, disk: Path, **variables: str) -> None:
        compiled = disk / "cache" / "numba" / cache_folder().name
        shutil.copytree(cache_folder(), compiled, copy_function=os.symlink)  # numba replaces files, and changes none
        small = {
            "JAVA_TOOL_OPTIONS": LEAN,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.worker.timeout={WAIT_SECONDS}",
        }
        self.disk = disk
        self._out, self._log = disk / "out", disk / "log"
        with open(self._out, "wb") as out, open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", program],
                cwd=disk,
                env=surroundings(disk, **small, **variables),
                stdout=out,
                stderr=log,
                start_new_session=True,
            )

    def finish(self) -> str:
        """Wait until it ends, assert exit code 0, return its output."""
        code = self._process.wait()
        assert code == 0, f"ended with {code}: {self._log.read_text('utf-8', 'replace')[-4000:]}"
        return self._out.read_text("utf-8")

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def said(self, pattern: str, executors: bool = False) -> re.Match[str] | None:
        """Search its log, or the logs of its executors, for a pattern."""
        logs = self.disk.glob("work/app-*/*/stderr") if executors else [self._log]
        return next(filter(None, (re.search(pattern, log.read_text("utf-8", "replace")) for log in logs)), None)

    def log(self) -> str:
        """Return its log."""
        return self._log.read_text("utf-8", "replace")

    def segments(self) -> list[Path]:
        """List the segments in the cache of this node."""
        return [path for path in self.disk.glob("cache/segments-*/*") if not path.name.startswith(".")]

    def signal(self, number: int) -> None:
        """Send a signal to the process and the executors that it started."""
        os.killpg(self._process.pid, number)

    def executors(self) -> list[int]:
        """Return the ids of the processes of its executors."""
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):  # it has ended
                if (
                    os.getsid(int(process)) == self._process.pid
                    and EXECUTOR in Path("/proc", process, "cmdline").read_text()
                ):
                    found.append(int(process))
        return found

    def kill(self) -> None:
        """Kill it and its executors, if it still runs."""
        if self.runs:
            self.signal(signal.SIGKILL)
            self._process.wait()


class Cluster:
    """A master with its nodes and drivers, all killed at the end of the block."""

    def __init__(
        self, folder: Path, secret: str | None = None, properties: Mapping[str, str] = DEFAULTS, **variables: str
    ) -> None:
        self.folder, self._properties = folder, properties
        self._conf = self.configuration("conf", secret)
        self.nodes: dict[str, Process] = {}
        self._drivers: list[Process] = []
        own = {"PORT": "0", "SPARK_CONF_DIR": self._conf}
        self._master = Process(command("master"), folder / "master", **(own | variables))

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in (*self._drivers, *self.nodes.values(), self._master):
            process.kill()

    @property
    def url(self) -> str:
        """Address of the master, once it is up."""
        pattern = r"Starting Spark master at (spark://\S+)[\s\S]*I have been elected leader"
        eventually(lambda: self._master.said(pattern) is not None, "no master came up")
        return self._master.said(pattern)[1]  # type: ignore[index]

    @property
    def registered(self) -> int:
        """The number of nodes that the master has ever accepted."""
        return len(re.findall(r"Registering worker", self._master.log()))

    @property
    def drivers(self) -> set[str]:
        """Ids of the drivers that the master has started on nodes."""
        return set(re.findall(r"Launching driver (driver-\S+)", self._master.log()))

    def add(self, *names: str, **variables: str) -> list[Process]:
        """Start nodes of one core with these variables, and wait until they have joined the master."""
        for name in names:
            self.nodes[name] = self._node(name, SPARK_CONF_DIR=self._conf, **variables)
        added = [self.nodes[name] for name in names]
        joined = "Successfully registered with master"
        eventually(lambda: all(node.said(joined) for node in added), f"not all of {names} joined")
        return added

    def stranger(self, name: str, secret: str | None) -> Process:
        """Start a node with another secret, or with none."""
        stranger = self._node(name, SPARK_CONF_DIR=self.configuration(f"conf-{name}", secret))
        self._drivers.append(stranger)
        return stranger

    def stranger_at_driver(self, node: Process) -> Process:
        """Start an executor without the secret, which calls the driver of the next job that runs on a node."""
        ended = set(node.disk.glob("work/app-*"))
        eventually(lambda: ended < set(node.disk.glob("work/app-*")), "the node has no executor")
        app = max(node.disk.glob("work/app-*")).name
        driver = rf'"--driver-url" "(\S+)".* "--app-id" "{app}"'
        eventually(lambda: node.said(driver, executors=True) is not None, "the executor does not start")
        url = node.said(driver, executors=True)[1]  # type: ignore[index]
        program = f"exec spark-class {EXECUTOR} --driver-url {url} --executor-id 99 --bind-address {LOOPBACK}"
        program += f" --hostname {LOOPBACK} --cores 1 --app-id {app} --resourceProfileId 0"
        conf = self.configuration("conf-executor", None)
        self._drivers.append(Process(program, self.folder / "executor", SPARK_CONF_DIR=conf, SPARK_LOCAL_IP=LOOPBACK))
        return self._drivers[-1]

    def configuration(self, name: str, secret: str | None) -> str:
        """Make a folder with `spark-defaults.conf`; return its path."""
        conf = self.folder / name
        conf.mkdir(parents=True)
        lines = "".join(f"{key} {value}\n" for key, value in self._properties.items())
        authentication = command("authentication").replace("SECRET", secret) if secret else ""
        (conf / "spark-defaults.conf").write_text(lines + authentication, "utf-8")
        return str(conf)

    def _node(self, name: str, **variables: str) -> Process:
        own = {"MASTER": self.url, "CORES": "1", "MEMORY": "1g"}
        return Process(command("worker"), self.folder / name, **own, **variables)

    def start(self, name: str, **variables: str) -> Process:
        """Start a command of the document on the cluster, with a separate cache."""
        own = {"MASTER": self.url, "SPARK_CONF_DIR": self._conf, "PSTSTREAM": str(ROOT)}
        return self._driver(command(name), name, **(own | variables))

    def run(self, program: str) -> Process:
        """Start a program that is not of the document, with the cluster as its Spark."""
        own = {"PSTSTREAM_SPARK_MASTER": self.url, "SPARK_CONF_DIR": self._conf, "SPARK_LOCAL_IP": LOOPBACK}
        return self._driver(program, "program", **own)

    def _driver(self, program: str, name: str, **variables: str) -> Process:
        disk = self.folder / f"driver-{len(self._drivers)}-{name}"
        own = {"PSTSTREAM_CACHE_DIR": str(disk / "cache")}
        self._drivers.append(Process(program, disk, **(own | variables)))
        return self._drivers[-1]


LEAN_DRIVER = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
}
"""Settings of a job whose driver is on one of two nodes, with its one executor on the other."""


def connection_for_drivers() -> dict[str, Any]:
    """Return the connection of Airflow to a cluster that does not run yet, for drivers on its nodes."""
    extra = {"deploy-mode": "cluster", "rest-port": free_port()}
    return {"conn_type": "spark", "host": f"spark://{LOOPBACK}:{free_port()}", "extra": extra}


@contextmanager
def cluster_for_drivers(folder: Path, connection: dict[str, Any], *nodes: str, **variables: str) -> Iterator[Cluster]:
    """Run the cluster of a connection. The variables are those of its nodes, and so of the drivers."""
    rest = f"-Dspark.master.rest.enabled=true -Dspark.master.rest.host={LOOPBACK}"
    rest += f" -Dspark.master.rest.port={connection['extra']['rest-port']}"
    with Cluster(folder, PORT=connection["host"].rpartition(":")[2], SPARK_MASTER_OPTS=rest) as cluster:
        cluster.add(*nodes, **variables)
        yield cluster
