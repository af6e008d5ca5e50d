"""Run Airflow and a Spark Connect server on this machine, reachable from this machine only, with the DAGs and the pool.

    make airflow
    .venv/bin/python infra/run_airflow.py [--port 8080] [--airflow-home DIR] [--home DIR] [--landing DIR]
                                          [--master 'local[2]'] [--check]

It sets up and runs `airflow standalone` (SQLite, one user), and the server on which the jobs run their steps, with a
token of its own; Ctrl-C or SIGTERM ends all of its processes. No server starts with PSTSTREAM_ENGINE=local, or if the
environment has a connection to Spark and `--master` is not given. `--check` starts all, waits until Airflow is healthy
and has read the DAGs, checks that they listen on loopback only, and ends them.
Exit codes: 0 stopped on request; 1 it did not start, or died; 2 the port is in use.
"""

import argparse
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from pststream.base.errors import PstError
from pststream.engine.spark_server import SparkServer, is_local
from pststream.engine.spark_session import shared_conf
from pststream.settings import load_settings

ROOT = Path(__file__).resolve().parents[1]
BINARIES = Path(sys.executable).parent
CONNECTION = "AIRFLOW_CONN_PSTSTREAM_SPARK"
DAGS = {
    f"pststream_{name}"
    for name in (
        *("adjust_load", "check_tables", "health", "maintain", "micro_batch", "pairs", "quarantine"),
        *("questions", "repartition", "term_statistics"),
    )
}
UI_PORT = 4040
"""The port of Spark's pages, if it is free."""

COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
SECONDS_TO_STOP = 30
PRIVATE = 0o077
"""The umask of all processes: Airflow writes passwords and keys into its folder, and others read none of it."""


class DidNotStart(Exception):
    """Airflow ended, or was not healthy in time."""


def main(arguments: list[str] | None = None) -> int:
    """Start Airflow, print its address, and wait for its end; return the exit code."""
    options = parse(arguments)
    if not port_is_free(options.port):
        print(f"port {options.port} is in use; choose another one: --port N", file=sys.stderr)
        return 2
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.default_int_handler)
    os.umask(PRIVATE)
    try:
        make_folders(options)
        conf = server_conf(options)
        with spark(conf, options.airflow_home) as server:
            environment = airflow_environment(options, server and server.url)
            with standalone(options.airflow_home, environment) as process:
                wait_until_healthy(process, base_url(options.port), options.timeout)
                if options.check:
                    return check(process, options)
                print(start_message(options, conf.get("spark.ui.port")), flush=True)
                wait_for_end(process, server)
    except KeyboardInterrupt:
        print("stopped")
        return 0
    except (DidNotStart, PstError, RuntimeError) as error:
        print(f"{error}\n  see {log_file(options.airflow_home)} and spark.log in the same folder", file=sys.stderr)
    return 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    environment = os.environ.get
    here = Path.cwd()
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--airflow-home", type=Path, default=environment("AIRFLOW_HOME") or here / "airflow-home")
    parser.add_argument("--home", default=environment("PSTSTREAM_HOME"), help="a folder, or s3://bucket/prefix")
    parser.add_argument("--landing", default=environment("PSTSTREAM_LANDING"), help="a folder, or s3://bucket/prefix")
    parser.add_argument("--master", default=None, help="where Spark runs; default: PSTSTREAM_SPARK_MASTER or local[*]")
    parser.add_argument("--timeout", type=float, default=240, help="seconds to wait until it is healthy")
    parser.add_argument("--check", action="store_true", help="start, check, stop")
    options = parser.parse_args(arguments)
    options.home = options.home or here / "pststream-home"
    options.landing = options.landing or f"{str(options.home).rstrip('/')}/landing"
    for name in ("airflow_home", "home", "landing"):
        setattr(options, name, normalize(getattr(options, name)))
    return options


def normalize(place: str | Path) -> str | Path:
    """Return an address in a bucket as s3://…, or an absolute path."""
    address = str(place)
    return f"s3://{address.partition('://')[2]}" if address.startswith(("s3://", "s3a://")) else Path(place).absolute()


def server_conf(options: argparse.Namespace) -> dict[str, str]:
    """Return the configuration of the Spark Connect server; empty if none is to start."""
    is_wanted = options.master or CONNECTION not in os.environ
    if not is_wanted or os.environ.get("PSTSTREAM_ENGINE") == "local":
        return {}
    conf = shared_conf(load_settings(None, spark_master=options.master))
    if not is_local(conf["spark.master"]):
        return conf | {"spark.ui.enabled": "false"}  # the nodes reach the driver, and so would others its pages
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return conf | {"spark.ui.port": str(UI_PORT if port_is_free(UI_PORT) else free_port())}


@contextmanager
def spark(conf: dict[str, str], logs: Path) -> Iterator[SparkServer | None]:
    """Run a Spark Connect server with this configuration, none without one."""
    server = SparkServer(conf, logs) if conf else None
    try:
        yield server
    finally:
        if server:
            server.stop()


def wait_for_end(process: subprocess.Popen[bytes], server: SparkServer | None) -> None:
    """Raise DidNotStart when Airflow or Spark has ended."""
    while process.poll() is None:
        if server and not server.is_alive():
            raise DidNotStart("Spark ended")
        time.sleep(1)
    raise DidNotStart(f"Airflow ended with {process.returncode}")


def connection_to(url: str) -> dict[str, Any]:
    """Return Airflow's connection to a Spark Connect server. A token is sent to `localhost` alone without TLS."""
    parts = urlsplit(url)
    token = parts.path.partition("token=")[2]
    return {"conn_type": "spark_connect", "host": parts.hostname, "port": parts.port, "password": token}


def airflow_environment(options: argparse.Namespace, spark_url: str | None) -> dict[str, str]:
    """Return the environment of every process of Airflow, and so of every job that it starts."""
    url = base_url(options.port)
    required = {
        "AIRFLOW_HOME": str(options.airflow_home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{options.airflow_home}/airflow.db",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(options.port),
        # Tasks find the server by this; if only the port were changed, each of them would fail.
        "AIRFLOW__API__BASE_URL": url,
        "PSTSTREAM_HOME": str(options.home),
        "PSTSTREAM_LANDING": str(options.landing),
        # The spark-submit that pip installs finds its Spark by PATH.
        "PATH": os.pathsep.join([str(BINARIES), os.environ.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    if spark_url:
        required[CONNECTION] = json.dumps(connection_to(spark_url))
    defaults = {
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    if not any(name.startswith("OPENLINEAGE") for name in os.environ):
        transport = {"TYPE": "file", "LOG_FILE_PATH": f"{options.airflow_home}/lineage.jsonl", "APPEND": "true"}
        defaults |= {f"OPENLINEAGE__TRANSPORT__{name}": value for name, value in transport.items()}
    return defaults | os.environ | required


def make_folders(options: argparse.Namespace) -> None:
    """Make the folders of Airflow and of landed files; safe to run again."""
    landing = options.landing
    landed = [] if isinstance(landing, str) else [landing / "objects", landing / "requests"]  # a text: in a bucket
    for folder in (options.airflow_home, *landed):
        folder.mkdir(parents=True, exist_ok=True)
    options.airflow_home.chmod(0o777 & ~PRIVATE)  # one that was made before may be open


@contextmanager
def standalone(airflow_home: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run Airflow in a session of its own, so that all of its processes can be ended together."""
    command = [sys.executable, str(ROOT / "infra" / "airflow" / "standalone.py")]
    with log_file(airflow_home).open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate Airflow; then end the processes of its session that are left, by their ids."""
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
    for survivor in session(process.pid):
        survivor.terminate()
    _, survivors = psutil.wait_procs(session(process.pid), timeout=10)
    for survivor in survivors:
        survivor.kill()
    process.wait()


def session(leader: int) -> list[psutil.Process]:
    """Return the processes of the session of `leader`, without `leader` itself."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.pid != leader:
                members.append(process)
        except OSError:
            continue
    return members


def wait_until_healthy(process: subprocess.Popen[bytes], url: str, seconds: float) -> None:
    """Return once every component reports that it is healthy; raises DidNotStart."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DidNotStart(f"Airflow ended with {process.returncode}")
        try:
            health = call(f"{url}/api/v2/monitor/health")
            if all(health[component]["status"] == "healthy" for component in COMPONENTS):
                return
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.5)
    raise DidNotStart(f"Airflow was not healthy after {seconds:.0f} s")


def check(process: subprocess.Popen[bytes], options: argparse.Namespace) -> int:
    """Check that the DAGs are read without error and nothing is reachable from outside; print the result."""
    url = base_url(options.port)
    token = log_in(url, password_file(options.airflow_home))
    deadline = time.monotonic() + options.timeout
    dags: set[str] = set()
    errors: list[Any] = []
    while not errors and not dags >= DAGS and time.monotonic() < deadline:
        time.sleep(0.5)
        dags = {dag["dag_id"] for dag in call(f"{url}/api/v2/dags", token)["dags"]}
        errors = call(f"{url}/api/v2/importErrors", token)["import_errors"]
    listens = sorted(listens_on(process.pid))
    exposed = [f"{ip}:{port}" for ip, port in listens if not is_loopback(ip)]
    print(json.dumps({"dags": sorted(dags), "import_errors": errors, "listens_on": listens, "exposed": exposed}))
    return 0 if dags >= DAGS and listens and not errors and not exposed else 1


def listens_on(leader: int) -> set[tuple[str, int]]:
    """Return the addresses and ports on which a process of the session, or a child of this one, listens."""
    addresses = set()
    for process in {*session(leader), *psutil.Process().children(recursive=True)}:
        try:
            connections = process.net_connections("inet")
        except psutil.Error:
            continue
        addresses |= {(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN}
    return addresses


def log_in(url: str, passwords: Path) -> str:
    """Return a token for the REST API, with the password that Airflow generated at its first start."""
    [(user, password)] = json.loads(passwords.read_text("utf-8")).items()
    return call(f"{url}/auth/token", body={"username": user, "password": password})["access_token"]


def call(url: str, token: str | None = None, body: Any = None) -> Any:
    """Send a request, POST if there is a body; return the JSON of the answer."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        return json.load(response)


def start_message(options: argparse.Namespace, ui_port: str | None) -> str:
    """Return where to log in, and what to do next; ui_port: that of Spark's pages, if it has any."""
    return "\n".join(
        [
            f"Airflow  {base_url(options.port)}  (this machine only; Ctrl-C stops it)",
            f"log in   user admin, password in {password_file(options.airflow_home)}",
            f"home     {options.home}",
            f"landing  {options.landing}  (objects/ and requests/)",
            f"log      {log_file(options.airflow_home)}",
            *([f"Spark    http://127.0.0.1:{ui_port}"] if ui_port else []),
            "DAGs are paused at first: enable pststream_micro_batch and the others; see docs/airflow.md",
        ]
    )


def base_url(port: int) -> str:
    """Return the URL of the user interface and the REST API."""
    return f"http://127.0.0.1:{port}"


def password_file(airflow_home: Path) -> Path:
    """Return the path of the file with the password that Airflow generated."""
    return airflow_home / "simple_auth_manager_passwords.json.generated"


def log_file(airflow_home: Path) -> Path:
    """Return the path of the log of all components."""
    return airflow_home / "standalone.log"


def port_is_free(port: int) -> bool:
    """Whether the port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a port that can be listened on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address, in either notation."""
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


if __name__ == "__main__":
    sys.exit(main())
