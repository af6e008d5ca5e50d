"""Configure Spark and connect to it: a server that runs already, the job that spark-submit started, or a server of our
own, which this process starts and ends.

All of them are used through Spark Connect. The engine has a session with settings of its own, which would slow SQL
down; `get_session` returns one with Spark's defaults.
"""

import atexit
import json
import logging
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import urlsplit

from pststream.base import names
from pststream.base.errors import RetryableError, UsageError
from pststream.base.optional_packages import needs_extra
from pststream.base.utc_times import utc_now
from pststream.engine import code_version
from pststream.engine.spark_server import JVM_OPTIONS, LOOPBACK, SparkServer, free_port, is_local
from pststream.settings import Settings
from pststream.state.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

ENGINE_SETTINGS = {
    # With adaptive execution each shuffle is a job of its own, which is planned again.
    "spark.sql.adaptive.enabled": "false",
    # Compiling Java takes longer than it saves on rows that no Java opens.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A partition for each row of a local DataFrame, without a shuffle.
    "spark.sql.leafNodeDefaultParallelism": "1000000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000000",
    # Bounds the rows that the JVM and a Python worker have in memory. Larger batches are slower, too.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # The rows of a task that runs again mean the same, but other bytes: they have measured seconds, and names of files.
    # From 4.2 on Spark compares bytes by default, and fails the job that lost an executor.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
"""Settings of the engine's session alone: they would ruin the plans of SQL."""

OF_ENGINE = {
    "spark.sql.session.timeZone": "UTC",
    # Arrow UDFs on a Parquet scan hang with columnar input in PySpark 4.2.0 (apache/spark#57403).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # A new Python worker for each task would load kernels and map segments again.
    "spark.python.worker.reuse": "true",
    # Over TCP a small task takes more than twice as long.
    "spark.python.unix.domain.socket.enabled": "true",
    # A short folder that every node has; only its own user may connect to a socket there.
    "spark.python.unix.domain.socket.dir": "/tmp",
    "spark.connect.progress.reportInterval": "250ms",
}
"""Configuration that the engine needs of every Spark."""

FAIR_POOL = Path(__file__).with_name("fair_scheduler.xml")
"""Makes the pool of all jobs a fair one: `spark.scheduler.mode` alone is about several pools."""

CORES_SECONDS = 60.0
"""Seconds after which the cores of Spark are counted again: a cluster may grow or shrink."""

MAX_CORES = 1 << 20

CLOSED = ("SESSION_CLOSED", "SESSION_CHANGED", "SESSION_NOT_FOUND")
"""Spark's names for a session that no longer is: it was idle for too long, or the server has started again."""

MAX_SESSIONS = 100
"""Sessions of a name that may have been closed one after the other."""

REMOTE_RETRIES = 6
"""Tries to reach a server after the first, in about 20 seconds; a DAG runs the job again after that."""

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""A variable of every process that spark-submit starts, and of no other."""

PARENT = os.getppid()
"""The process that started this one; under spark-submit, the JVM."""


def jar_folder() -> Path:
    """Return the folder into which the setup installs the Delta jars."""
    return Path(sys.prefix) / "share" / "pststream" / "jars"


def s3a_folder() -> Path:
    """Return the folder for the jars by which Spark SQL reads and writes a bucket: hadoop-aws, and those it needs."""
    return jar_folder() / "s3a"


def spark_conf(settings: Settings) -> dict[str, str]:
    """Return the configuration of a server or of spark-submit; the comments say why each entry is there."""
    jars = sorted(str(path) for path in jar_folder().rglob("*.jar"))
    delta = {
        "spark.jars": ",".join(jars),
        **names.DELTA_CONF,
        # The default of 50 tasks a Delta snapshot makes a small commit take seconds.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    addresses = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    # The nodes of a cluster print to logs of their own.
    daemon = {"spark.python.daemon.module": "pststream.engine.worker_daemon"}
    return {
        "spark.app.name": "pststream",
        "spark.master": settings.spark_master,
        # The nodes of a cluster call the driver back, at the machine's name or SPARK_LOCAL_IP.
        **(addresses | daemon if is_local(settings.spark_master) else {}),
        **(delta if jars else {}),
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        **OF_ENGINE,
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.ui.showConsoleProgress": "false",
        # Without it a listing of a table's files may start 10,000 tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def shared_conf(settings: Settings) -> dict[str, str]:
    """Return the configuration of a server that many processes use: with pages, and cores for each of their jobs."""
    return spark_conf(settings) | {
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": FAIR_POOL.as_uri(),
        "spark.ui.enabled": "true",
        # Whoever reaches the pages could end the jobs.
        "spark.ui.killEnabled": "false",
    }


class _Spark:
    """The Spark of this process: the address of its Connect server, and the server if this process started it."""

    lock = threading.RLock()
    url: str | None = None
    server: SparkServer | None = None
    engine: "EngineSession | None" = None
    session: "SparkSession | None" = None


def spark_url(settings: Settings) -> str:
    """Return the address of the Spark Connect server that this process uses; start one if it has none."""
    with _Spark.lock:
        if _Spark.url is None:
            remote = remote_of(settings)
            if remote:
                _Spark.url = remote
            elif under_spark_submit():
                _Spark.url = _serve_submitted()
            else:
                with needs_extra("spark"):
                    _Spark.server = SparkServer(_own_conf(settings))
                _Spark.url = _Spark.server.url
        return _Spark.url


def _own_conf(settings: Settings) -> dict[str, str]:
    """Return the configuration of a server of our own; what a DAG would have submitted comes before the settings."""
    submitted: dict[str, str] = json.loads(os.environ.get(names.SPARK_CONF_VARIABLE, "{}"))
    master = submitted.get("spark.master", settings.spark_master)
    return spark_conf(replace(settings, spark_master=master)) | submitted


def remote_of(settings: Settings) -> str:
    """Return the address of a server that runs already, from the settings or Spark's own variable; empty: none."""
    return settings.spark_remote or os.environ.get("SPARK_REMOTE", "")


def under_spark_submit() -> bool:
    """Whether spark-submit started this process, so that a JVM waits for it."""
    return SUBMITTED in os.environ


def _serve_submitted() -> str:
    """Let the JVM of spark-submit, with what was submitted, serve Spark Connect to this process; return the address."""
    from pyspark.sql import SparkSession

    port, token = free_port(), uuid.uuid4().hex
    builder = SparkSession.builder
    for key, value in {
        **OF_ENGINE,  # all else is as submitted
        "spark.api.mode": "classic",  # of the JVM's own session, which only starts the server
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
    }.items():
        builder = builder.config(key, value)
    atexit.register(builder.getOrCreate().stop)
    return f"sc://localhost:{port}/;token={token}"


def get_session(settings: Settings) -> "SparkSession":
    """Return a session with Delta's SQL and Spark's defaults, for queries of the tables. Raises as `check_jars`."""
    check_jars(settings)
    with _Spark.lock:
        if _Spark.session is None:
            _Spark.session = _connect(spark_url(settings))
            _Spark.session.conf.set("spark.sql.session.timeZone", "UTC")  # also on a server that others configured
        return _Spark.session


def check_jars(settings: Settings, home: Home | None = None) -> None:
    """Raise UsageError if a server of our own would lack the jars of Delta, or those of S3A for a home in a bucket.

    Nothing is known about the jars of a server that runs already, or of what spark-submit started.
    """
    if remote_of(settings) or under_spark_submit():
        return
    if not any(jar_folder().glob("*.jar")):
        hint = f"run: {sys.executable} -m pststream.cli.fetch_jars"
        raise UsageError(f"the jars that Spark needs for Delta are not in {jar_folder()}", hint)
    if home is not None and home.storage.is_remote and not any(s3a_folder().glob("hadoop-aws-*.jar")):
        hint = f"run: {sys.executable} -m pststream.cli.fetch_jars --s3a (make s3a-jars in a clone)"
        hint += ", or set spark_remote to a Spark Connect server that has them"
        raise UsageError(f"Spark needs the jars of S3A for the tables of {home.path}: none in {s3a_folder()}", hint)


def get_engine_session(settings: Settings) -> "EngineSession":
    """Return the session of the engine in this process."""
    with _Spark.lock:
        if _Spark.engine is None:
            cores = _local_cores(_own_conf(settings)["spark.master"]) if is_one_machine(settings) else None
            _Spark.engine = EngineSession(spark_url(settings), _Spark.server is None, cores)
        return _Spark.engine


def is_one_machine(settings: Settings) -> bool:
    """Whether the tasks run on this machine, by the Python of this process."""
    return not remote_of(settings) and not under_spark_submit() and is_local(_own_conf(settings)["spark.master"])


def _local_cores(master: str) -> int:
    """Return how many tasks a master `local[…]` runs at the same time."""
    number = master.partition("[")[2].partition(",")[0].rstrip("]") or "1"
    return len(os.sched_getaffinity(0)) if number == "*" else int(number)


def _connect(url: str, session_id: str | None = None) -> "SparkSession":
    with needs_extra("spark"):
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    if session_id:
        url += ("" if urlsplit(url).path else "/") + f";session_id={session_id}"
    session = ConnectSession.builder.remote(url).create()
    # By default a client waits ten minutes for a server that is not there, also when it exits.
    session.client.set_retry_policies([DefaultPolicy(max_retries=3 if _Spark.server else REMOTE_RETRIES)])
    atexit.register(session.client.close)
    return cast("SparkSession", session)


class EngineSession:
    """The session in which the engine runs its tasks.

    On a server that other processes use, all processes of this code share one session, which none of them stops: each
    session has Python workers of its own, and new ones would load the kernels again. Other code has other workers, and
    so has a process that starts on another day: a server remembers each session that it closed.

    place   where the tasks run, as `collect_places` has it; empty before the first call
    """

    def __init__(self, url: str, is_shared: bool, local_cores: int | None) -> None:
        """Remember where the server is; local_cores: if the tasks run on this machine alone, how many at a time."""
        self._url, self._is_shared, self._local_cores = url, is_shared, local_cores
        self._number, self.place = 0, ""
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._cores, self._counted_at = 0, 0.0

    def expected_code(self) -> str:
        """Return the digest of the code that nodes must run; empty (any code) on this machine alone."""
        return "" if self._local_cores else code_version.code_digest()

    def run(self, call: Callable[["SparkSession"], Result]) -> Result:
        """Return the result of `call`; with a new session if the server has closed the one that there was."""
        for _ in range(MAX_SESSIONS):
            try:
                return call(self._open())
            except Exception as error:
                if not any(name in str(error) for name in CLOSED):
                    raise
                with self._lock:
                    self._session, self._number = None, self._number + 1
        raise RetryableError("Spark closes each new session", "look into the log of the Spark Connect server")

    def cores(self) -> int:
        """Return how many tasks run at the same time: the cores that Spark has now, counted at most once a minute."""
        if self._local_cores:
            return self._local_cores
        if not self._cores or time.monotonic() - self._counted_at > CORES_SECONDS:
            self._cores, self._counted_at = _count_cores(self._url), time.monotonic()
        return self._cores

    def close(self) -> None:
        """Close the connection; the session goes on for other processes."""
        if self._session is not None:
            self._session.client.close()

    def _open(self) -> "SparkSession":
        with self._lock:
            if self._session is None:
                name = f"pststream {code_version.code_digest()} {utc_now():%F} {self._number}"
                session = _connect(self._url, str(uuid.uuid5(uuid.NAMESPACE_OID, name)) if self._is_shared else None)
                for key, value in ENGINE_SETTINGS.items():
                    session.conf.set(key, value)
                host = urlsplit(self._url).hostname
                self.place = f"Spark {session.conf.get('spark.master') if host == 'localhost' else host}"
                if self._local_cores:  # a connection to loopback is not lost
                    session.client.disable_reattachable_execute()
                self._session = session
            return self._session


def _count_cores(url: str) -> int:
    """Return the number of partitions into which Spark divides rows without the engine's settings: one for each core.

    In a session of its own, as other processes may use that of the engine.
    """
    session = _connect(url)
    try:
        numbers = session.range(0, MAX_CORES).selectExpr("spark_partition_id() AS number")
        return int(numbers.agg({"number": "max"}).toArrow()[0][0].as_py()) + 1
    finally:
        session.stop()


def spark_has_died() -> bool:
    """Whether the server that this process started no longer runs; the operating system may have killed it."""
    if _Spark.server is not None:
        return not _Spark.server.is_alive()
    return under_spark_submit() and os.getppid() != PARENT


def kill_spark() -> None:
    """Kill the Spark of this process, if it has its own. A stop would wait for its tasks."""
    is_submitted = under_spark_submit() and _Spark.url is not None and os.getppid() == PARENT
    if _Spark.server is not None or is_submitted:
        logging.disable()  # of broken connections
    if _Spark.server is not None:
        _Spark.server.kill()
    elif is_submitted:
        os.kill(PARENT, signal.SIGKILL)  # spark-submit's JVM


@atexit.register
def stop_spark() -> None:
    """Stop the server that this process started, if any, and forget the sessions."""
    with _Spark.lock:
        if _Spark.session is not None:
            _Spark.session.client.close()
        if _Spark.engine is not None:
            _Spark.engine.close()
        if _Spark.server is not None:
            _Spark.server.stop()
        _Spark.url = _Spark.server = _Spark.engine = _Spark.session = None
