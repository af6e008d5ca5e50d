"""The configuration of Spark and its server, errors of tasks, code of nodes, and compiled kernels."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from benchmarks.support.measured_homes import BenchHome
from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import no_progress
from pststream.engine import code_version, spark_engine, spark_server, spark_session, warm_up, worker_daemon
from pststream.pipeline.batch import micro_batch
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_driver_is_on_loopback(master: str) -> None:
    conf = spark_session.spark_conf(Settings(spark_master=master))
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://localhost:7077", "k8s://https://h:6443", "local-cluster[2,1,512]"])
def test_the_driver_of_a_cluster_is_where_its_nodes_find_it(master: str) -> None:
    conf = spark_session.spark_conf(Settings(spark_master=master))
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(conf)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has started no Spark and knows none."""
    for name in ("url", "server", "engine", "session"):
        monkeypatch.setattr(spark_session._Spark, name, None)
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


def test_missing_jars_are_an_error_that_names_the_command(
    no_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_session, "jar_folder", lambda: tmp_path)
    with pytest.raises(UsageError, match="(?s)Delta are not in .* -m pststream.cli.fetch_jars"):
        spark_session.get_session(Settings())
    assert "spark.jars" not in spark_session.spark_conf(Settings()), "the engine does without them"


def test_missing_java_is_an_error_that_says_so(no_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UsageError, match="(?s)needs Java.*PSTSTREAM_ENGINE=local"):
        spark_session.get_engine_session(Settings())


@pytest.mark.parametrize("name", ["short", "a" * 60, "é" * 30])
def test_sockets_are_in_a_folder_of_their_own_user_whatever_the_length_of_tmpdir(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
    folder = Path(spark_server._socket_folder())
    try:
        assert folder.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / ("s" * 43)))  # as long as the names that Spark gives
    finally:
        shutil.rmtree(folder)


def test_no_folder_for_sockets_is_an_error_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("a" * 60)))
    monkeypatch.setattr(spark_server, "SHORT_FOLDERS", (str(tmp_path / "missing"), "/proc"))
    with pytest.raises(UsageError, match="(?s)at most 38 bytes.*set TMPDIR"):
        spark_server._socket_folder()


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_the_cores_of_a_local_master(master: str, cores: int) -> None:
    assert spark_session._local_cores(master) == cores


class Closed:
    """A server that closes the first sessions of a name."""

    def __init__(self, closed: int) -> None:
        self.closed, self.opened = closed, list[str]()
        self.conf, self.client = self, self

    def connect(self, url: str, session_id: str | None) -> "Closed":
        self.opened.append(str(session_id))
        return self

    def set(self, key: str, value: str) -> None:
        if len(self.opened) <= self.closed:
            raise RuntimeError("[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid. Session was closed.")


def test_processes_share_a_session_and_take_the_next_one_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    for closed in (0, 2):
        server = Closed(closed)
        monkeypatch.setattr(spark_session, "_connect", server.connect)
        session = spark_session.EngineSession("sc://host", True, None)
        assert session.run(lambda one: "done") == "done" == session.run(lambda one: "done")
        opened.append(server.opened)
    assert len(opened[0]) == 1 and opened[1][0] == opened[0][0] and len(set(opened[1])) == 3


def test_the_error_of_a_task_is_the_end_of_its_last_traceback() -> None:
    text = (
        ": PythonException: Traceback (most recent call last):\n  File a, line 1, in main\n    process()\n    ^^^\n"
        "OSError: no such file\nof that name\n\n\tat org.apache.spark.api.python.Reader\n"
    )
    assert spark_engine._error_of_task(text) == "OSError: no such file\nof that name"
    assert spark_engine._error_of_task("Job aborted") == ""


def test_a_task_that_may_be_run_again_fails_as_on_the_local_engine() -> None:
    text = (
        "Traceback (most recent call last):\n  File a, line 1, in main\n"
        "pststream.base.errors.RetryableError: {}\n\tat org"
    )

    error = RuntimeError(text.format(RetryableError("/cache: no room for 9 bytes", "make room")))
    with pytest.raises(RetryableError) as caught:
        spark_engine._raise_task_error(error)
    assert str(caught.value) == "/cache: no room for 9 bytes\n  make room"


def test_the_same_code_passes() -> None:
    code_version.check_code_in_task(code_version.code_digest())
    code_version.check_code_in_task("")


def test_the_error_names_the_node_with_other_code() -> None:
    with pytest.raises(RuntimeError) as failed:
        code_version.check_code_in_task("the digest of the driver")
    with pytest.raises(RetryableError, match=r"node \S+ runs other code than the driver\n.*the same image"):
        code_version.explain_if_other_code(
            Exception(f"Job aborted:\nTraceback\nRuntimeError: {failed.value}\n\n\tat org.apache")
        )


def test_other_errors_pass_through() -> None:
    code_version.explain_if_other_code(ValueError("no such file"))


def test_a_worker_without_a_task_ends(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        ours.close()
        worker_daemon.wait_and_run_task(theirs, True)
        os._exit(1)  # a task was run
    theirs.close()
    ours.close()
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert capfd.readouterr().err == ""


def test_a_worker_runs_the_task_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(worker_daemon, "_run_task", lambda sock, authenticated: len(sock.recv(8)))
    ours.sendall(b"task")
    assert worker_daemon.wait_and_run_task(theirs, True) == 4


def test_kernels_are_compiled_once_their_code_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up.load_kernels()
    assert warm_up.is_compiled("matching", "match_segment")
    assert not warm_up.is_compiled("matching", "no_such_kernel")
    monkeypatch.setattr(warm_up, "cache_folder", lambda: tmp_path / "none yet")
    assert not warm_up.is_compiled("matching", "match_segment")


def test_a_batch_says_that_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = BenchHome(str(tmp_path / "home"), 1, no_progress)
    bench.add_subscriptions(10, SubscriptionStyle())
    lines: list[str] = []
    for compiled in (False, True):
        monkeypatch.setattr(micro_batch, "is_compiled", lambda *_, compiled=compiled: compiled)
        bench.add_objects(10)
        lines.clear()
        micro_batch.match(bench.home, Settings(engine="local"), progress=lines.append)
        assert (micro_batch.COMPILING in lines) is not compiled
    lines.clear()
    monkeypatch.setattr(micro_batch, "is_compiled", lambda *_: False)
    micro_batch.match(bench.home, Settings(engine="local"), progress=lines.append)
    assert micro_batch.COMPILING not in lines, "nothing is pending"
