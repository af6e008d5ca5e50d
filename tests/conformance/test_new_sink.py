"""A kind of sink is added as one module and one line: the line in `SINK_KINDS`, which these tests patch in."""

import json
from pathlib import Path

import pytest

from pststream.base.errors import SettingError
from pststream.cli.doctor import check_sinks
from pststream.delivery.sinks.registry import SINK_KINDS, find_delivery_obstacle, open_sink, sink_keys
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery.deliver import deliver, replay_letters
from pststream.settings import FILE, Settings, load_settings
from pststream.state.deliveries import SinkProgress, count_dead, read_progress
from pststream.state.home import Home
from tests.commands import run_here
from tests.conformance import maildrop_sink
from tests.matched_homes import add_matched_batch, add_subscriptions, retractions_of
from tests.oracles.delivery import expected_messages


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Two batches, the second with retractions."""
    home = Home(tmp_path / "home")
    home.init()
    keys = add_subscriptions(home, 4)
    matched = add_matched_batch(home, keys, 8, seed=1)
    add_matched_batch(home, keys, 4, seed=2, minutes=60, retractions=retractions_of(matched, keys[0]))
    return home


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINK_KINDS, "maildrop", maildrop_sink.KIND)


def configure(home: Home, target: Path | str, more: str = "") -> None:
    (Path(home.path) / FILE).write_text(f'[sinks.drop]\nkind = "maildrop"\ntarget = "{target}"\n{more}')


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_deliver_command_sends_to_it(added: None, home: Home, tmp_path: Path, lanes: int) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    configure(home, folder, f"lanes = {lanes}\n")
    outcome = run_here("deliver", "--home", home.path, "--json").json["sinks"]["drop"]
    expected = expected_messages(home)
    accepted = {message["id"]: message for message in expected if message["kind"] != "retracted"}
    assert {file.name: json.loads(file.read_bytes()) for file in folder.iterdir()} == accepted
    refused = len(expected) - len(accepted)
    assert refused > 0 and (outcome["kind"], outcome["state"]) == ("maildrop", "ok")
    assert (outcome["delivered"], outcome["refused"], count_dead(home, "drop")) == (len(accepted), refused, refused)
    again = run_here("deliver", "--home", home.path, "--json").json["sinks"]["drop"]
    assert (again["delivered"], again["batches_left"]) == (0, 0)


def test_its_checks_run_with_those_of_the_other_kinds(added: None, home: Home, tmp_path: Path) -> None:
    configure(home, "relative")
    with pytest.raises(SettingError, match="absolute"):
        load_settings(home.path)
    configure(home, tmp_path, "lanes = 3\n")
    with pytest.raises(SettingError, match="more than 2"):
        load_settings(home.path)
    configure(home, tmp_path, f'[sinks.other]\nkind = "maildrop"\ntarget = "{tmp_path}"\n')
    with pytest.raises(SettingError, match="target of sink drop"):
        load_settings(home.path)
    configure(home, tmp_path / "missing")
    assert [(check.name, check.detail) for check in check_sinks(str(home.path))] == [
        ("sink drop", "its folder is missing")
    ]
    meaning = {key.name: key.meaning for key in sink_keys()}
    assert meaning["kind"].endswith(", maildrop") and meaning["target"].endswith("; maildrop: a folder")


def test_an_unknown_kind_stops_before_any_work(home: Home, tmp_path: Path) -> None:
    configure(home, tmp_path)
    done = run_here("deliver", "--home", home.path)
    assert done.code == 2 and "sinks.drop.kind" in done.err and "one of: file, webhook, sqs, sns" in done.err
    unknown = SinkSettings("drop", "maildrop", "https://sqs.example/1/q")
    good = SinkSettings("good", "file", str(tmp_path / "good"))
    settings = Settings(sinks=(good, unknown))
    for work in (deliver, replay_letters):
        with pytest.raises(SettingError, match="unknown"):
            work(home, settings)
    for of_one_sink in (open_sink, find_delivery_obstacle):
        with pytest.raises(SettingError, match="unknown"):
            of_one_sink(unknown)
    assert not (tmp_path / "good").exists()
    assert read_progress(home, "good") == read_progress(home, "drop") == SinkProgress()


@pytest.mark.parametrize("kind", SINK_KINDS)
def test_each_kind_needs_a_target_and_opens_without_reaching_it(kind: str) -> None:
    assert SINK_KINDS[kind].name == kind
    with pytest.raises(SettingError, match="is missing"):
        open_sink(SinkSettings("s", kind))
    assert "no target" in find_delivery_obstacle(SinkSettings("s", kind))
    sink = open_sink(SinkSettings("s", kind, "https://nowhere.invalid/x"))
    assert sink.lanes == 1 and sink.max_messages > 0 and sink.max_bytes > 0
