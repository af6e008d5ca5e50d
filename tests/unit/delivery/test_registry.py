"""Faults of sinks that `doctor` finds before anything is sent; none shows a secret."""

from pathlib import Path

import pytest

from pststream.cli.doctor import check_sinks
from pststream.delivery.sinks.registry import find_delivery_obstacle
from pststream.delivery.sinks.settings import SinkSettings
from tests.moto_process import CREDENTIALS


def test_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = SinkSettings("h", "webhook", "http://127.0.0.1:9/x?t=hidden", "hidden", "127.0.0.0/8")
    assert find_delivery_obstacle(hook) == ""
    assert "PSTSTREAM_SINK_H_SECRET" in find_delivery_obstacle(SinkSettings("h", "webhook", hook.target))
    private = find_delivery_obstacle(SinkSettings("h", "webhook", hook.target, "hidden"))
    assert "private" in private and "hidden" not in private
    assert "resolved" in find_delivery_obstacle(SinkSettings("h", "webhook", "https://nowhere.invalid/", "hidden"))


def test_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert find_delivery_obstacle(SinkSettings("f", "file", str(tmp_path / "new" / "er"))) == ""
    assert "PSTSTREAM_SINK_F_TARGET" in find_delivery_obstacle(SinkSettings("f", "file"))
    assert "written" in find_delivery_obstacle(SinkSettings("f", "file", str(tmp_path / "file" / "er")))


def test_queues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    queue = SinkSettings("q", "sqs", "https://sqs.example/1/q")
    assert "no credentials" in find_delivery_obstacle(queue)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, CREDENTIALS[name])
    assert "no region" in find_delivery_obstacle(queue)
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "eu-north-1")
            assert find_delivery_obstacle(queue) == ""
    monkeypatch.setenv("AWS_PROFILE", "nobody's")
    assert "nobody's" in find_delivery_obstacle(queue)


def test_doctor_has_a_line_for_each(tmp_path: Path) -> None:
    (tmp_path / "pststream.toml").write_text(
        f'[sinks.a]\nkind = "file"\ntarget = "{tmp_path}"\n[sinks.b]\nkind = "webhook"\ntarget = "https://b.example/"\n'
    )
    checks = check_sinks(str(tmp_path))
    assert [(check.name, check.ok, bool(check.remedy)) for check in checks] == [
        ("sink a", True, False),
        ("sink b", False, True),
    ]
    (tmp_path / "pststream.toml").write_text("workers = 0")
    assert check_sinks(str(tmp_path)) == []
