"""`pststream doctor` finds each fault and prints its remedy."""

import hashlib
import importlib.metadata
import shutil
import socket
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from pststream.cli import doctor
from pststream.engine import spark_session
from tests.commands import run_here


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two sound jars, where the doctor looks."""
    lines = []
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(name.encode())
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (tmp_path / "jars.sha256").write_text("".join(lines), "utf-8")
    monkeypatch.setattr(doctor, "TARGET", tmp_path)
    return tmp_path


def java_that_says(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\n", "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(folder))


def test_this_installation_has_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in doctor.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    checks = doctor.diagnose(str(tmp_path / "home"))
    assert [check for check in checks if not check.ok] == []
    assert [check.name for check in checks] == [*("python", "java", "pyspark", "jars", "kernels", "settings", "disk")]
    assert all(check.detail and not check.remedy for check in checks)


def test_settings_are_those_of_the_home_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSTSTREAM_HOME", str(tmp_path / "named"))
    checks = {check["name"]: check for check in run_here("doctor", "--json").json["checks"]}
    assert str(tmp_path / "named") in checks["settings"]["detail"]


def test_diagnosis_changes_nothing(tmp_path: Path) -> None:
    doctor.diagnose(str(tmp_path / "home"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "17" 2021-09-14', True),
        ('java version "1.8.0_392"', False),
        ('openjdk version "21.0.2" 2024-01-16', False),
        ("what?", False),
    ],
)
def test_java_release(line: str, ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_says(tmp_path, line, monkeypatch)
    check = doctor.check_java()
    assert check.ok is ok
    assert ok or "Java 17" in check.remedy


def test_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert not doctor.check_java().ok


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor.check_java()
    assert not check.ok
    assert "not found" in check.detail


def test_the_installed_pyspark_is_one_that_the_engine_works_with() -> None:
    check = doctor.check_pyspark()
    assert check.ok and "pyspark 4." in check.detail


@pytest.mark.parametrize(
    ("versions", "detail", "remedy"),
    [
        ({"pyspark": "3.5.9"}, "pyspark 3.5.9, but 4.1 or 4.2 is required", "make setup"),
        (
            {"pyspark": "4.2.0", "pyspark-client": "4.1.3"},
            "pyspark 4.2.0, pyspark-client 4.1.3",
            "pyspark-client==4.2.0",
        ),
    ],
)
def test_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], detail: str, remedy: str
) -> None:
    def version(name: str) -> str:
        try:
            return versions[name]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(importlib.metadata, "version", version)
    check = doctor.check_pyspark()
    assert not check.ok and check.detail == detail and remedy in check.remedy


def test_changed_jar(jars: Path) -> None:
    assert doctor.check_jars().ok
    (jars / "a.jar").write_bytes(b"something else")
    check = doctor.check_jars()
    assert not check.ok and "a.jar" in check.detail and "b.jar" not in check.detail
    (jars / "a.jar").write_bytes(b"a.jar")
    (jars / "b.jar").unlink()
    check = doctor.check_jars()
    assert not check.ok and "b.jar" in check.detail and "a.jar" not in check.detail
    shutil.rmtree(jars)
    assert not doctor.check_jars().ok


def test_kernels_that_cannot_be_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("PSTSTREAM_CACHE_DIR", str(tmp_path / "file"))
    check = doctor.check_kernels()
    assert not check.ok
    assert "PSTSTREAM_CACHE_DIR" in check.remedy


@pytest.mark.parametrize("content", [b"workers = 0\n", b"unheard_of = 1\n", b"not TOML", b"\xff\xfe"])
def test_settings_that_cannot_be_used(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pststream.toml").write_bytes(content)
    check = doctor.check_settings(str(tmp_path))
    assert not check.ok
    assert check.remedy


def test_endpoint_that_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert doctor.check_endpoint("AWS_ENDPOINT_URL").ok
        assert "AWS_ENDPOINT_URL" in {check.name for check in doctor.diagnose(str(tmp_path))}


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "ftp://127.0.0.1", "127.0.0.1:9000", "http://127.0.0.1:99999", "http://"]
)
def test_endpoint_that_does_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    assert not doctor.check_endpoint("AWS_ENDPOINT_URL_S3").ok


@pytest.mark.parametrize(
    "url",
    [
        "http://user:s3cr3t@127.0.0.1:{port}", "http://s3cr3t@127.0.0.1:1", "http://127.0.0.1:1/?token=s3cr3t",
        "http://user:s3cr3t/s3cr3t@127.0.0.1:1", "http://user:s3cr3t@127.0.0.1:99999", "user:s3cr3t@127.0.0.1:9000",
        "ftp://user:s3cr3t@h", "http://user:s3c r3t@127.0.0.1:1", "http://[s3cr3t", "http://user:s3cr3t",
    ],
)  # fmt: skip
def test_no_secret_of_an_endpoint_is_printed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url.format(port=server.getsockname()[1]))
        check = doctor.check_endpoint("AWS_ENDPOINT_URL")
    assert check.ok == ("{port}" in url)
    for secret in ("s3cr3t", "s3c", "r3t"):
        assert secret not in f"{check.detail} {check.remedy}"


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=5 * 2**20))
    check = doctor.check_disk(str(tmp_path / "home"))
    assert not check.ok
    assert check.remedy


def test_home_in_an_object_store_is_no_folder() -> None:
    assert doctor.check_disk("s3a://bucket/home").ok


def test_the_table_of_pairs_needs_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path / "home")
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(spark_session, "jar_folder", lambda: tmp_path)
    assert doctor.check_settings(home).ok
    monkeypatch.setenv("PSTSTREAM_PAIRS_TABLE", "hourly")
    missing = doctor.check_settings(home)
    assert not missing.ok and "fetch_jars" in missing.remedy
    (tmp_path / "delta-spark.jar").touch()
    assert doctor.check_settings(home).ok
