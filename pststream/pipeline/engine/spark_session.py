"""Spark in this process: started once, with the settings that Python workers and Delta's readers need."""

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pststream.errors import HomeError
from pststream.settings import Settings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""The JVM places tasks and moves bytes: it starts in half the time when it compiles but once, and one collector is
enough. The code cache is that of a JVM that compiles twice, as a full one makes it sweep without end."""

LOOPBACK = "127.0.0.1"

SOCKETS = "spark.python.unix.domain.socket"

LONGEST_FOLDER = 38
"""Characters of the folder of temporary files: a Unix socket's whole name has 107 at most, of which a folder's own name
takes 25 and what Spark adds 43.
"""

PARENT = os.getppid()
"""Who started this process; under spark-submit that is the JVM."""


def jar_folder() -> Path:
    """Where set-up puts the Delta jars."""
    return Path(sys.prefix) / "share" / "pststream" / "jars"


def is_local(master: str) -> bool:
    """Whether a master means threads of the driver itself, so that nobody else needs to reach it."""
    return master == "local" or master.startswith("local[")


def spark_conf(settings: Settings) -> dict[str, str]:
    """Configuration of a session or a spark-submit; why each is there stands beside it."""
    jars = sorted(str(path) for path in jar_folder().glob("*.jar"))
    if not jars:
        raise HomeError(str(jar_folder()), "holds no Spark jars", "run: make setup")
    addresses = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return {
        # The nodes of a cluster call the driver back: where, the machine's name or SPARK_LOCAL_IP says.
        **(addresses if is_local(settings.spark_master) else {}),
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": settings.spark_driver_memory,
        # Arrow UDFs on a Parquet scan hang with columnar input in PySpark 4.2.0 (apache/spark#57403).
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        # Any other bound measures the whole batch again after each row: 14 times slower for nested columns.
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        # A fresh Python worker would load and compile kernels and map segments again in each task.
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
    """The process's Spark; under spark-submit its master and memory stay as submitted.

    A context alone starts in half the time of a session with its SQL engine, which the pipeline does not need.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        return SparkContext._active_spark_context
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _submit_arguments(settings))
    submitted = _submitted()
    master = submitted.get("spark.master", settings.spark_master)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    wanted = {"spark.app.name": "pststream", "spark.master": master}
    wanted |= spark_conf(replace(settings, spark_master=master))
    if is_local(master):
        wanted |= _unix_sockets()
    conf = SparkConf().setAll([(key, value) for key, value in {**wanted, **submitted}.items()])
    context = SparkContext.getOrCreate(conf)
    context.setLogLevel("ERROR")
    return context


def _unix_sockets() -> dict[str, str]:
    """Configuration that has the JVM and its Python workers on this machine speak through sockets in a folder that is
    nobody else's: by TCP over loopback a small task takes more than twice as long.

    Nothing where the folder's name is too long for a socket. On a cluster each node would need such a folder.
    """
    if len(tempfile.gettempdir()) > LONGEST_FOLDER:
        return {}
    folder = tempfile.mkdtemp(prefix="pststream-spark-")
    _made.append(folder)
    return {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": folder}


_made: list[str] = []


@atexit.register
def _remove_sockets() -> None:
    """Remove the folders of sockets that this process has made."""
    while _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)


def get_session(settings: Settings) -> "SparkSession":
    """A session on the process's Spark, with Delta's SQL: for those who query the tables."""
    from pyspark.sql import SparkSession

    get_context(settings)
    return SparkSession.builder.getOrCreate()


def _submit_arguments(settings: Settings) -> str:
    """How pyspark starts the JVM of a session that nobody submitted."""
    return f"--driver-memory {settings.spark_driver_memory} --driver-java-options '{JVM_OPTIONS}' pyspark-shell"


def _submitted() -> dict[str, str]:
    """What spark-submit was told, if it started this process; only a live gateway knows."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def spark_is_alive() -> bool:
    """Whether the process's Spark runs; it may have been killed for the memory it takes."""
    from pyspark import SparkContext

    try:
        return not SparkContext._active_spark_context._jsc.sc().isStopped()  # type: ignore[union-attr]
    except Exception:
        return False


def kill_spark() -> None:
    """End the process's Spark at once, whatever it is at: stopping would wait for its tasks."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        logging.disable()  # of broken connections
        if SparkContext._gateway.proc is not None:
            SparkContext._gateway.proc.kill()
        elif os.getppid() == PARENT:  # spark-submit's JVM, which started this process
            os.kill(PARENT, signal.SIGKILL)


def stop_spark() -> None:
    """Stop the process's Spark, if it started one."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        with suppress(OSError):  # it has died
            SparkContext._active_spark_context.stop()
    _remove_sockets()
