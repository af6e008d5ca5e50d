"""Configure and start Spark in this process as a context or SQL session; stop it, or kill it with its tasks."""

import atexit
import json
import logging
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.optional_packages import needs_extra
from pststream.engine import spark_log
from pststream.settings import Settings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""The JVM only schedules tasks and moves bytes: with one compiler it starts in half the time, and the serial
collector is enough. The code cache has the size for two compilers, since the JVM sweeps a full one all the time.
"""

LOOPBACK = "127.0.0.1"

SOCKETS = "spark.python.unix.domain.socket"

DAEMON = {"spark.python.daemon.module": "pststream.engine.worker_daemon"}
"""On this machine only: the nodes of a cluster print to logs of their own."""

SHORT_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders for Unix sockets where the path of the folder of temporary files is too long."""

MAX_FOLDER_BYTES = 38
"""Bytes that the path of such a folder may have: the path of a Unix socket has 107 at most, of which the name of our
folder takes 25 and the name that Spark adds 43.
"""

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable from which pyspark reads the arguments of the JVM that it starts."""

PARENT = os.getppid()
"""The process that started this one; under spark-submit, the JVM."""


def jar_folder() -> Path:
    """Return the folder into which the setup installs the Delta jars."""
    return Path(sys.prefix) / "share" / "pststream" / "jars"


def is_local(master: str) -> bool:
    """Whether the tasks of a master run in the driver's own process, so that no other machine needs to reach it."""
    return master == "local" or master.startswith("local[")


def spark_conf(settings: Settings) -> dict[str, str]:
    """Return the configuration of a session or of spark-submit; the comments say why each entry is there."""
    jars = sorted(str(path) for path in jar_folder().glob("*.jar"))
    if not jars:
        hint = f"run: {sys.executable} -m pststream.cli.fetch_jars"
        raise UsageError(f"the jars that Spark needs for Delta are not in {jar_folder()}", hint)
    addresses = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return {
        # The nodes of a cluster call the driver back, at the machine's name or SPARK_LOCAL_IP.
        **(addresses if is_local(settings.spark_master) else {}),
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": settings.spark_driver_memory,
        # Arrow UDFs on a Parquet scan hang with columnar input in PySpark 4.2.0 (apache/spark#57403).
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        # With any other bound Spark measures the whole batch again after each row: 14 times slower for nested columns.
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        # A new Python worker for each task would load kernels and map segments again.
        "spark.python.worker.reuse": "true",
        # The default of 50 tasks a Delta snapshot makes a small commit take seconds.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Without it a listing of a table's files may start 10,000 tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def get_context(settings: Settings) -> "SparkContext":
    """Return the Spark context of this process; start it if needed. Under spark-submit it has the submitted values.

    A context starts in half the time of a session with its SQL engine, which the pipeline does not need.
    """
    with needs_extra("spark"):
        from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        return SparkContext._active_spark_context
    _check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted, master = _submitted(), spark_master(settings)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    ours = {"spark.app.name": "pststream", "spark.master": master}
    ours |= spark_conf(replace(settings, spark_master=master))
    if is_local(master):
        ours |= _unix_sockets() | DAEMON
    conf = SparkConf().setAll([(key, value) for key, value in {**ours, **submitted}.items()])
    with _submit_arguments(settings, submitted):
        spark_log.start_jvm(conf)
        context = SparkContext.getOrCreate(conf)
    if spark_log.log_folder() is None:
        context.setLogLevel("ERROR")
    return context


def _check_java() -> None:
    """Raise UsageError if there is no Java; under spark-submit the JVM runs already."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java") or "PYSPARK_GATEWAY_PORT" in os.environ):
        hint = "install Java 17, or run with PSTSTREAM_ENGINE=local, which needs none"
        raise UsageError("Spark needs Java, which is neither at JAVA_HOME nor on PATH", hint)


def _unix_sockets() -> dict[str, str]:
    """Return the configuration for Unix sockets between the JVM and its Python workers, in a private folder: over TCP a
    small task takes more than twice as long, and other users of the machine can connect.

    On a cluster each node would need such a folder. Raises UsageError if no folder with a short path can be written.
    """
    for place in (tempfile.gettempdir(), *SHORT_FOLDERS):
        if len(os.fsencode(place)) <= MAX_FOLDER_BYTES:
            with suppress(OSError):
                folder = tempfile.mkdtemp(prefix="pststream-spark-", dir=place)
                _socket_folders.append(folder)
                return {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": folder}
    raise UsageError(
        f"Spark's sockets need a folder with a path of at most {MAX_FOLDER_BYTES} bytes: {tempfile.gettempdir()} is"
        f" longer, and {', '.join(SHORT_FOLDERS)} cannot be written",
        "set TMPDIR to a folder with a short path",
    )


_socket_folders: list[str] = []


@atexit.register
def _remove_sockets() -> None:
    """Delete the socket folders that this process has made."""
    while _socket_folders:
        shutil.rmtree(_socket_folders.pop(), ignore_errors=True)


def get_session(settings: Settings) -> "SparkSession":
    """Return a session on the process's Spark, with Delta's SQL, for queries of the tables."""
    from pyspark.sql import SparkSession

    get_context(settings)
    return SparkSession.builder.getOrCreate()


@contextmanager
def _submit_arguments(settings: Settings, submitted: Mapping[str, str]) -> Iterator[None]:
    """Set the arguments with which pyspark starts the JVM without spark-submit, unless the environment has its own.

    They are removed afterwards: a process that this one starts has its own settings.
    """
    if SUBMIT_ARGUMENTS in os.environ:
        yield
        return
    memory = submitted.get("spark.driver.memory", settings.spark_driver_memory)
    options = submitted.get("spark.driver.extraJavaOptions", JVM_OPTIONS)
    java = f"--driver-memory {memory} --driver-java-options {shlex.quote(options)}"
    os.environ[SUBMIT_ARGUMENTS] = f"{java} pyspark-shell"
    try:
        yield
    finally:
        del os.environ[SUBMIT_ARGUMENTS]


def spark_master(settings: Settings) -> str:
    """Return where Spark runs: as submitted, else as the settings say."""
    return _submitted().get("spark.master", settings.spark_master)


def _submitted() -> dict[str, str]:
    """Return the configuration that spark-submit was given, which only a live gateway has, if it started this process;
    else the configuration with which a DAG would have submitted it.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        conf: dict[str, str] = json.loads(os.environ.get(names.SPARK_CONF_VARIABLE, "{}"))
        return conf
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def spark_has_died() -> bool:
    """Whether Spark was started by this process and no longer runs; the operating system may have killed it."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return False
    try:
        return bool(SparkContext._active_spark_context._jsc.sc().isStopped())
    except Exception:
        return True


def kill_spark() -> None:
    """Kill the Spark of this process. A stop would wait for its tasks."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        logging.disable()  # of broken connections
        if SparkContext._gateway.proc is not None:
            SparkContext._gateway.proc.kill()
        elif os.getppid() == PARENT:  # spark-submit's JVM, which started this process
            os.kill(PARENT, signal.SIGKILL)


def stop_spark() -> None:
    """Stop the Spark of this process, if it started one."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        with suppress(OSError):  # it has died
            SparkContext._active_spark_context.stop()
    _remove_sockets()
