"""Start the JVM of Spark with its log in a folder: log4j writes `spark.log`, standard error goes to `spark-stderr.log`.

The folder is `logs` in the home, or one of this node if the home is in a bucket or does not exist yet. Unless
`log_to_folder` was called before Spark starts, Spark logs to standard error: under spark-submit, in tests, and with
`--verbose`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pststream.base import names
from pststream.base.utc_times import iso, utc_now
from pststream.state.home import Home

if TYPE_CHECKING:
    from pyspark import SparkConf

CONFIGURATION = Path(__file__).with_name("log4j2.properties")

LOG_FILE = "PSTSTREAM_SPARK_LOG"
"""The environment variable from which log4j takes the path of `spark.log`; a path in JVM options needs quotes."""

MAX_STDERR_BYTES = 1_000_000
"""Size from which `spark-stderr.log` starts again. The JVM and Python workers write a few lines to it."""

EXPECTED = "WARNING: Using incubator modules"
"""The start of a line that every JVM of Spark writes to standard error before log4j starts."""


class _SparkLog:
    """Where the Spark of this process logs: the home that was chosen, and the folder that is in use."""

    home: Home | None = None
    folder: Path | None = None


def log_to_folder(home: Home) -> None:
    """Let the Spark that this process starts from now on log to the folder of a home."""
    _SparkLog.home = home


def log_folder() -> Path | None:
    """Return the folder to which the Spark of this process logs; None if it logs to standard error or never started."""
    return _SparkLog.folder


def start_jvm(conf: "SparkConf") -> None:
    """Start the JVM of Spark, if `log_to_folder` was called and no JVM runs; else Spark starts it.

    conf: the JVM gets it as it starts, so that its class loader has the jars

    Raises RuntimeError with the lines that the JVM wrote to standard error if it ends at once.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    home = _SparkLog.home
    if home is None or SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    try:
        folder = _make_folder(home)
        stderr = _open_stderr(folder / "spark-stderr.log")
    except OSError:  # a log must not stop the work
        return
    _SparkLog.folder = folder
    with stderr, _environment(folder / "spark.log"):
        start = stderr.tell()
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})
        except Exception as error:
            raise RuntimeError("\n".join([str(error), *_lines_since(stderr.name, start)])) from error
    SparkContext._ensure_initialized(gateway=gateway)


def _make_folder(home: Home) -> Path:
    """Return the folder for the logs of a home; create it if it does not exist."""
    local = home.storage.local_path(home.path)
    if local is None or not (local / names.HOME_MARK).exists():
        from pststream.kernels.compile import node_folder  # loads numba

        local = node_folder()
    folder = local / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _open_stderr(path: Path) -> BinaryIO:
    """Open the file for standard error at its end, and write a line that names the process."""
    is_full = path.exists() and path.stat().st_size > MAX_STDERR_BYTES
    file = open(path, "wb" if is_full else "ab")  # noqa: SIM115
    file.write(f"{iso(utc_now())} process {os.getpid()} starts Spark\n".encode())
    file.flush()
    return file


@contextmanager
def _environment(log: Path) -> Iterator[None]:
    """Set the environment variables of log4j, except its configuration where the user has set one."""
    ours = {"LOG4J_CONFIGURATION_FILE": str(CONFIGURATION)} | dict(os.environ) | {LOG_FILE: str(log)}
    added = {name: value for name, value in ours.items() if os.environ.get(name) != value}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _lines_since(path: str, start: int) -> list[str]:
    text = Path(path).read_bytes()[start:].decode(errors="replace")
    return [line for line in text.splitlines() if not line.startswith(EXPECTED)]
