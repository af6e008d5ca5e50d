"""Ids and payloads from before they were bounded stop no delivery: they are cut, or their messages are dead letters."""

from pathlib import Path
from typing import Any

import pytest

from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery.deliver import deliver, list_letters, replay_letters
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.sinks import Memory
from tests.unit.reports.commands.homes import add_batch, add_file, copy_of, insertion, match_row, thing

SETTINGS = Settings(sinks=(SinkSettings("a", "file", "unused"),))
PAYLOADS = {
    "before": '{"n": 1}',
    "long": f'{{"note": "{"x" * 3_000_000}"}}',
    "deep": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "after": None,
}


@pytest.fixture
def old_home(empty_home: Path, tmp_path: Path) -> Home:
    """An object with a long id and one with a short id, each matched by the subscriptions of PAYLOADS."""
    home = copy_of(empty_home, tmp_path / "home")
    rows = [insertion(n, name, payload=payload) for n, (name, payload) in enumerate(PAYLOADS.items(), 1)]
    requests = add_file(home, "requests", rows)
    objects = add_file(home, "objects", [thing(1, "é" * 1_000_000), thing(2, "short")])
    keys = [log_key(requests, n) for n in range(1, len(rows) + 1)]
    matches = [match_row(log_key(objects, n), name, 0, keys) for n, name in enumerate(["é" * 1_000_000, "short"], 1)]
    add_batch(home, matches)
    return home


def deliver_to(home: Home, sink: Memory) -> dict[str, Any]:
    outcome: dict[str, Any] = deliver(home, SETTINGS, opener=lambda _: sink)["sinks"]["a"]
    return outcome


def test_long_fields_are_cut_and_all_messages_arrive(old_home: Home) -> None:
    sink = Memory()
    outcome = deliver_to(old_home, sink)
    assert (outcome["state"], outcome["delivered"], outcome["refused"]) == ("ok", 8, 0)
    shown = [(one["object"]["object_id"], one["subscription"]) for one in sink.bodies]
    assert [object_id for object_id, _ in shown] == ["é" * 682] * 4 + ["short"] * 4
    assert [one["object"].get("cut") for one in sink.bodies] == [["object_id"]] * 4 + [None] * 4
    for _, subscription in shown:
        name, is_cut = subscription["subscription_id"], subscription["subscription_id"] in ("long", "deep")
        assert subscription.get("cut") == (["payload"] if is_cut else None)
        assert subscription["payload"] == ({"n": 1} if name == "before" else None)
    assert len({one["id"] for one in sink.bodies}) == 8
    assert max(len(message.body) for batch in sink.batches for message in batch.messages) < 10_000


def test_a_message_over_the_bound_of_a_sink_is_a_dead_letter_and_the_others_go_on(old_home: Home) -> None:
    sink = Memory()
    sink.max_bytes = 1_000
    outcome = deliver_to(old_home, sink)
    assert (outcome["state"], outcome["delivered"], outcome["refused"]) == ("ok", 4, 4)
    assert [one["object"]["object_id"] for one in sink.bodies] == ["short"] * 4
    letters = list_letters(old_home, SETTINGS, None, 10)
    assert {letter["reason"] for letter in letters} == {"larger than 1000 bytes, the bound of this kind of sink"}
    assert replay_letters(old_home, SETTINGS, opener=lambda _: sink)["sinks"]["a"]["dead"] == 4
    sink.max_bytes = 1_000_000
    assert replay_letters(old_home, SETTINGS, opener=lambda _: sink)["sinks"]["a"] == {
        "delivered": 4, "dead": 0, "reason": None
    }  # fmt: skip
