"""Settings of sinks: their sources, refused values, what `doctor` finds before anything is sent, no secret shown."""

from pathlib import Path

import pytest

from pststream.base.errors import SettingError
from pststream.cli.doctor import check_sinks
from pststream.delivery.sinks.registry import find_delivery_obstacle
from pststream.delivery.sinks.settings import SinkSettings
from pststream.settings import FILE, load_settings, write_settings
from tests.moto_process import CREDENTIALS

HOOK = '[sinks.hook]\nkind = "webhook"\ntarget = "https://a.example/x"\n'


def sinks(folder, text, monkeypatch, **environment):
    (folder / FILE).write_text(text)
    for name, value in environment.items():
        monkeypatch.setenv(f"PSTSTREAM_SINK_{name}", value)
    return load_settings(folder).sinks


def test_file_and_environment(tmp_path, monkeypatch):
    text = f'workers = 3\n{HOOK}limit = 2\n[sinks.all]\nkind = "file"\ntarget = "out"\n'
    loaded = sinks(tmp_path, text, monkeypatch, HOOK_SECRET="s", HOOK_LIMIT="7", ALL_TARGET="other")
    hook = SinkSettings("hook", "webhook", "https://a.example/x", "s", limit=7)
    assert loaded == (SinkSettings("all", "file", "other"), hook)


def test_no_text_contains_a_secret(tmp_path, monkeypatch):
    target = "https://a.example/x?token=hidden-token"
    loaded = sinks(tmp_path, HOOK, monkeypatch, HOOK_SECRET="hidden-secret", HOOK_TARGET=target)
    assert (loaded[0].secret, loaded[0].target) == ("hidden-secret", target)
    assert "hidden" not in repr(loaded) + repr(load_settings(tmp_path))


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        (HOOK + 'secret = "hidden"\n', "sinks.hook.secret", "must not be in a file"),
        (HOOK.replace("/x", "/x?token=hidden"), "sinks.hook.target", "has a query"),
        (HOOK.replace("a.example", "me:hidden@a.example"), "sinks.hook.target", "user or a password"),
        (HOOK.replace("https", "ftp"), "sinks.hook.target", "not a URL"),
        (HOOK.replace("a.example", "[::1"), "sinks.hook.target", "not a URL"),
        (HOOK.replace("a.example", ""), "sinks.hook.target", "not a URL"),
        (HOOK + 'networks = "10.0.0.1/8"\n', "sinks.hook.networks", "not a network"),
        (HOOK + "tries = 0\n", "sinks.hook.tries", "less than 1"),
        (HOOK + "tries = 1.5\n", "sinks.hook.tries", "not a whole number"),
        (HOOK + "tries = true\n", "sinks.hook.tries", "not a whole number"),
        (HOOK + "timeout_seconds = 0\n", "sinks.hook.timeout_seconds", "not above 0"),
        (HOOK + "limit = -1\n", "sinks.hook.limit", "less than 0"),
        (HOOK + "colour = 1\n", "sinks.hook.colour", "unknown key"),
        (HOOK.replace("webhook", "pigeon"), "sinks.hook.kind", "unknown"),
        (HOOK.replace("hook]", "Hook]"), "sinks.Hook", "not a name"),
        (HOOK + "lanes = 65\n", "sinks.hook.lanes", "more than"),
        ('[sinks.a]\nkind = "file"\nlanes = 2\n', "sinks.a.lanes", "more than"),
        (
            '[sinks.a]\ntarget = "out"\nkind = "file"\n[sinks.b]\nkind = "file"\ntarget = "./out/"\n',
            "sinks.b.target",
            "target of sink a",
        ),
        ("sinks = 3\n", "sinks", "tables"),
    ],
)
def test_refused_settings(tmp_path, monkeypatch, text, name, reason):
    with pytest.raises(SettingError, match=reason) as caught:
        sinks(tmp_path, text, monkeypatch)
    assert caught.value.name == name and "hidden" not in str(caught.value)


def test_written_settings_are_above_the_tables(tmp_path, monkeypatch):
    (tmp_path / FILE).write_text("cost_check = 1.0\n" + HOOK)
    write_settings(tmp_path, {"cost_check": 2.0, "cost_object": 3.0})
    loaded = load_settings(tmp_path)
    assert (loaded.cost_check, loaded.cost_object, len(loaded.sinks)) == (2.0, 3.0, 1)


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
