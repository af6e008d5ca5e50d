"""The Spark configuration: a local driver listens on loopback, that of a cluster does not."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pststream.base.errors import UsageError
from pststream.engine import spark_session
from pststream.settings import Settings


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_driver_is_on_loopback(master: str) -> None:
    conf = spark_session.spark_conf(Settings(spark_master=master))
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://localhost:7077", "k8s://https://h:6443", "local-cluster[2,1,512]"])
def test_the_driver_of_a_cluster_is_where_its_nodes_find_it(master: str) -> None:
    conf = spark_session.spark_conf(Settings(spark_master=master))
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(conf)


def test_missing_jars_are_an_error_that_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "jar_folder", lambda: tmp_path)
    with pytest.raises(UsageError, match="(?s)Delta are not in .* -m pststream.cli.fetch_jars"):
        spark_session.spark_conf(Settings())


def test_missing_java_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(UsageError, match="(?s)needs Java.*PSTSTREAM_ENGINE=local"):
        spark_session.get_context(Settings())


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The socket folders that a test makes; they are deleted."""
    folders: list[str] = []
    monkeypatch.setattr(spark_session, "_socket_folders", folders)
    yield folders
    for folder in folders:
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["short", "a" * 60, "é" * 30])
def test_sockets_are_in_a_folder_of_their_own_user_whatever_the_length_of_tmpdir(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_sockets: list[str]
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
    conf = spark_session._unix_sockets()
    folder = Path(conf["spark.python.unix.domain.socket.dir"])
    assert conf["spark.python.unix.domain.socket.enabled"] == "true"
    assert (str(folder), folder.stat().st_mode & 0o777) == (no_sockets[0], 0o700)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / ("s" * 43)))  # as long as the names that Spark gives


def test_no_folder_for_sockets_is_an_error_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_sockets: list[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("a" * 60)))
    monkeypatch.setattr(spark_session, "SHORT_FOLDERS", (str(tmp_path / "missing"), "/proc"))
    with pytest.raises(UsageError, match="(?s)at most 38 bytes.*set TMPDIR"):
        spark_session._unix_sockets()
    assert no_sockets == []
