"""Start a Spark Connect server as a child process of this one, with its log in a folder; stop it, or kill it.

The log of Spark goes to `spark.log` of the folder `logs` in the home, or in a folder of this node if the home is in a
bucket or does not exist yet; standard error goes to `spark-stderr.log` there. Unless `log_to_folder` was called before
the server starts, Spark logs to standard error: in tests, and with `--verbose`.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.utc_times import iso, utc_now
from pststream.state.home import Home

LOOPBACK = "127.0.0.1"

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""The JVM only schedules tasks and moves bytes: with one compiler it starts in half the time, and the serial
collector is enough. The code cache has the size for two compilers, since the JVM sweeps a full one all the time.
"""

SOCKETS = "spark.python.unix.domain.socket.dir"

SHORT_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders for Unix sockets where the path of the folder of temporary files is too long."""

MAX_FOLDER_BYTES = 38
"""Bytes that the path of such a folder may have: the path of a Unix socket has 107 at most, of which the name of our
folder takes 25 and the name that Spark adds 43.
"""

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"

SUPERVISE = """exec 3<&0
"$@" 3<&- </dev/null &
server=$!
{ read -r line <&3; kill -KILL "$server"; } >/dev/null 2>&1 &
wait "$server"
"""
"""Runs the server, and kills it when this process has ended, in whatever way: its end of the pipe is closed then."""

START_SECONDS = 300.0
STOP_SECONDS = 10.0

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")

LOG_FILE = "PSTSTREAM_SPARK_LOG"
"""The environment variable from which log4j takes the path of `spark.log`; a path in JVM options needs quotes."""

MAX_STDERR_BYTES = 1_000_000
"""Size from which `spark-stderr.log` starts again. The JVM and Python workers write a few lines to it."""

STARTS = "starts Spark"
"""The end of a line of `spark-stderr.log` that names the process."""

EXPECTED = "WARNING: Using incubator modules"
"""The start of a line that every JVM of Spark writes to standard error before log4j starts."""


class _Log:
    """Where the Spark of this process logs: the home that was chosen, and the folder that is in use."""

    home: Home | None = None
    folder: Path | None = None


def log_to_folder(home: Home) -> None:
    """Let the server that this process starts from now on log to the folder `logs` of a home."""
    _Log.home = home


def log_folder() -> Path | None:
    """Return the folder to which the server of this process logs; None if it logs to standard error or never ran."""
    return _Log.folder


class SparkServer:
    """A Spark Connect server that listens on loopback and asks for a token; it ends with this process.

    url   its address for clients, with the token
    """

    def __init__(self, conf: Mapping[str, str], logs: Path | None = None) -> None:
        """Start a server and wait until it listens.

        conf: configuration of Spark, with its master and the heap and options of the JVM
        logs: a folder for its logs; None: as `log_to_folder` said

        Raises UsageError if there is no Java or no place for sockets, and RuntimeError with the lines that the JVM
        wrote to standard error if it ends at once.
        """
        _check_java()
        self._is_local = is_local(conf["spark.master"])
        self._folders = [_socket_folder(), tempfile.mkdtemp(prefix="pststream-spark-")]
        sockets, temporary = self._folders
        port, token = free_port(), secrets.token_urlsafe(24)
        self.url = f"sc://localhost:{port}/;token={token}"
        ours = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.extraJavaOptions": f"{conf['spark.driver.extraJavaOptions']} -Djava.io.tmpdir={temporary}",
        }
        if self._is_local:  # the nodes of a cluster have folders of their own
            ours |= {SOCKETS: sockets, "spark.local.dir": temporary}
        command = server_command({**conf, **ours})
        output, variables = _open_log(logs)
        environment = os.environ | variables | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
        environment.pop("SPARK_DAEMON_MEMORY", None)  # it would count before spark.driver.memory
        if self._is_local:
            environment.setdefault("SPARK_LOCAL_IP", LOOPBACK)
            environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)  # workers as this one
        with output or contextlib.nullcontext():
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", SUPERVISE, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output or sys.stderr,
                stderr=output or sys.stderr,
                env=environment,
                start_new_session=True,  # so that SIGINT of a terminal ends this process, and it the server
            )
            self._wait_for(port, Path(output.name) if output else None)

    def is_alive(self) -> bool:
        """Whether the server runs; the operating system may have killed it for its memory."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the server. Its tasks have ended; a cluster must see that its cores are free."""
        if not self._is_local:
            self._signal(signal.SIGTERM)
            until = time.monotonic() + STOP_SECONDS
            while self._signal(0) and time.monotonic() < until:
                self._process.poll()
                time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        """Kill the server at once, without waiting for its tasks."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._delete_folders()

    def _delete_folders(self) -> None:
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _signal(self, number: int) -> bool:
        """Send a signal to the server and its supervisor; return whether one of them is there."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _wait_for(self, port: int, log: Path | None) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                self._delete_folders()
                lines = _lines_of_last_start(log) if log else []
                raise RuntimeError("\n".join(["Spark ended while it started", *lines]))
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1.0):
                return
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"Spark has not started for {START_SECONDS:.0f} s")


def server_command(conf: Mapping[str, str]) -> list[str]:
    """Return the command that runs a Spark Connect server with this configuration."""
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    return [str(_spark_home() / "bin" / "spark-submit"), "--class", SERVER_CLASS, *options, "spark-internal"]


def is_local(master: str) -> bool:
    """Whether the tasks of a master run in the driver's own process, so that no other machine needs to reach it."""
    return master == "local" or master.startswith("local[")


def _spark_home() -> Path:
    """Return the folder of the Spark that this process starts: SPARK_HOME, else that of pyspark."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _check_java() -> None:
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        hint = "install Java 17, or run with PSTSTREAM_ENGINE=local, which needs none"
        raise UsageError("Spark needs Java, which is neither at JAVA_HOME nor on PATH", hint)


def _socket_folder() -> str:
    """Make a private folder for Unix sockets between the JVM and its Python workers: over TCP a small task takes more
    than twice as long, and other users of the machine can connect.

    Raises UsageError if no folder with a short path can be written.
    """
    for place in (tempfile.gettempdir(), *SHORT_FOLDERS):
        if len(os.fsencode(place)) <= MAX_FOLDER_BYTES:
            with contextlib.suppress(OSError):
                return tempfile.mkdtemp(prefix="pststream-spark-", dir=place)
    raise UsageError(
        f"Spark's sockets need a folder with a path of at most {MAX_FOLDER_BYTES} bytes: {tempfile.gettempdir()} is"
        f" longer, and {', '.join(SHORT_FOLDERS)} cannot be written",
        "set TMPDIR to a folder with a short path",
    )


def free_port() -> int:
    """Return a port of loopback that no process uses now."""
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


def _open_log(folder: Path | None) -> tuple[IO[bytes] | None, dict[str, str]]:
    """Return the file for standard error and the variables for log4j; none without a folder for them."""
    try:
        if folder is None:
            if _Log.home is None:
                return None, {}
            folder = _make_folder(_Log.home)
        path = folder / "spark-stderr.log"
        is_full = path.exists() and path.stat().st_size > MAX_STDERR_BYTES
        file = open(path, "wb" if is_full else "ab")  # noqa: SIM115
        file.write(f"{iso(utc_now())} process {os.getpid()} {STARTS}\n".encode())
        file.flush()
    except OSError:  # a log must not stop the work
        return None, {}
    _Log.folder = folder
    chosen = os.environ.get("LOG4J_CONFIGURATION_FILE", str(LOG_CONFIGURATION))
    return file, {"LOG4J_CONFIGURATION_FILE": chosen, LOG_FILE: str(folder / "spark.log")}


def _make_folder(home: Home) -> Path:
    """Return the folder for the logs of a home; create it if it does not exist."""
    local = home.storage.local_path(home.path)
    if local is None or not (local / names.HOME_MARK).exists():
        from pststream.kernels.compile import node_folder  # loads numba

        local = node_folder()
    folder = local / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _lines_of_last_start(path: Path) -> list[str]:
    text = path.read_text("utf-8", errors="replace").rpartition(f" {STARTS}\n")[2]
    return [line for line in text.splitlines() if not line.startswith(EXPECTED)]
