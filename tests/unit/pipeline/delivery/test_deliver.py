"""Delivery to sinks that fail on purpose: every message arrives, in order, at each sink in its own time."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds
import pytest

from pststream.base import names
from pststream.base.errors import RetryableError, UsageError
from pststream.delivery.sinks import contract
from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, SinkDown
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery import deliver as delivery
from pststream.pipeline.delivery.deliver import deliver, is_well, list_letters, replay_letters, waiting_sinks
from pststream.pipeline.delivery.outbox import Limit, Outbox
from pststream.settings import Settings
from pststream.state.deliveries import count_dead
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import log_key
from tests.fuzz.cases import seeds
from tests.matched_homes import add_matched_batch, add_subscriptions, retractions_of
from tests.oracles.delivery import expected_messages
from tests.sinks import Failing, Memory, by_subscription, without_repeats
from tests.unit.reports.commands.homes import add_batch, add_file, copy_of, insertion, match_row, thing

A, B = (SinkSettings(name, "file", "unused") for name in "ab")


def deliver_to(home: Home, sinks: dict[str, Any], *settings: SinkSettings, seconds: int = 20) -> dict[str, Any]:
    """Deliver to sinks of the test."""
    known = Settings(sinks=settings or tuple(SinkSettings(name, "file", "x") for name in sinks))
    return deliver(home, replace(known, delivery_seconds=seconds), opener=lambda sink: sinks[sink.name])["sinks"]


@pytest.fixture(scope="module")
def template(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three batches, the last with retractions; not to be written to."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("busy") / "home")
    keys = add_subscriptions(home, 6)
    found = add_matched_batch(home, keys, 12, seed=1, minutes=0)
    add_matched_batch(home, keys, 6, seed=2, minutes=30)
    add_matched_batch(home, keys, 6, seed=3, minutes=90, retractions=retractions_of(found, keys[0]))
    return Path(home.path)


@pytest.fixture
def busy_home(template: Path, tmp_path: Path) -> Home:
    return copy_of(template, tmp_path / "home")


def test_every_message_is_delivered_once(busy_home: Home) -> None:
    sinks = {"a": Memory(), "b": Memory(1_000)}
    expected = expected_messages(busy_home)
    outcome = deliver_to(busy_home, sinks)
    assert sinks["a"].bodies == sinks["b"].bodies == expected
    assert {name: (one["state"], one["delivered"]) for name, one in outcome.items()} == {
        name: ("ok", len(expected)) for name in "ab"
    }
    assert deliver_to(busy_home, sinks)["a"]["delivered"] == 0
    assert sinks["a"].bodies == expected
    ids = [batch.id for batch in sinks["a"].batches]
    assert len(set(ids)) == len(ids) == sum(-(-count // 3) for count in counts_of(expected))


def counts_of(expected: list[dict[str, Any]]) -> list[int]:
    """Messages of each batch."""
    return [sum(message["batch_id"] == batch for message in expected) for batch in (1, 2, 3)]


@seeds(6)
@pytest.mark.parametrize("limit", [0, 2])
def test_failures_on_purpose(busy_home: Home, monkeypatch: pytest.MonkeyPatch, seed: int, limit: int) -> None:
    monkeypatch.setattr(contract, "FIRST_WAIT", 0.0)
    memory = Memory()
    sink = Failing(memory, seed, down=0.3, lost=0.3, refused=0.1)
    settings = replace(A, tries=2, limit=limit, limit_seconds=3_600)
    for _ in range(200):
        if deliver_to(busy_home, {"a": sink}, settings)["a"]["state"] == "ok":
            break
    expected = expected_messages(busy_home, limit, 3_600)
    dead = {row["message_id"] for row in read_table(busy_home.table(names.DEAD_LETTERS)).to_pylist()}
    accepted = [message for message in expected if message["id"] not in dead]
    assert dead and len(dead) < len(expected)
    assert without_repeats(memory.bodies) == accepted
    assert by_subscription(without_repeats(memory.bodies)) == by_subscription(accepted)
    ids: dict[str, set[str]] = {}
    for batch in memory.batches:
        ids.setdefault(batch.id, set()).update(message.id for message in batch.messages)
    assert sum(map(len, ids.values())) == len(accepted), "a batch came again with other messages"
    rows = read_table(busy_home.table(names.DELIVERIES)).to_pylist()
    assert sum(row["delivered"] for row in rows) == len(accepted)
    assert sum(row["refused"] for row in rows) == len(dead) == count_dead(busy_home, "a")
    assert sum(row["failures"] for row in rows) > 0


def test_a_dead_sink_delays_no_other(hand_home: Home) -> None:
    """Down for more than an hour of the stream, then up: all messages arrive, in order, and the other never waits."""
    keys = add_subscriptions(hand_home, 5)
    dead, healthy = Failing(Memory(), down=1.0), Memory()
    sinks = {"a": dead, "b": healthy}
    for number in range(7):
        add_matched_batch(hand_home, keys, 4, seed=number, minutes=10 * number)
        outcome = deliver_to(hand_home, sinks, replace(A, tries=3), B)
        assert (outcome["a"]["state"], outcome["a"]["batches_left"]) == ("down", number + 1)
        assert (outcome["b"]["state"], outcome["b"]["batches_left"]) == ("ok", 0)
        assert outcome["a"]["failures"] == (3 if number == 0 else 1), "a sink that was down is tried once"
        assert outcome["b"]["seconds"] < 30
        assert healthy.bodies == expected_messages(hand_home)
    dead.down = 0.0
    assert deliver_to(hand_home, sinks, replace(A, tries=3), B)["a"]["state"] == "ok"
    assert dead.sink.bodies == expected_messages(hand_home)
    assert count_dead(hand_home, "a") == 0


class Slow(Memory):
    """Accepts batches slowly."""

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Accept a batch, slowly."""
        time.sleep(0.3)
        return super().deliver(batch)


def test_a_slow_sink_has_its_time_and_no_more(busy_home: Home) -> None:
    slow, healthy = Slow(8), Memory()
    outcomes = []
    for _ in range(200):
        before = len(slow.batches)
        outcomes.append(deliver_to(busy_home, {"a": slow, "b": healthy}, seconds=1)["a"])
        assert len(slow.batches) - before <= 5
        if outcomes[-1]["state"] == "ok":
            break
    assert healthy.bodies == expected_messages(busy_home)
    assert len(outcomes) > 2 and {one["state"] for one in outcomes[:-1]} == {"behind"}
    assert slow.bodies == expected_messages(busy_home), "the position is saved when the time is over"


def test_a_sink_that_does_not_return(busy_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pststream.pipeline.delivery.deliver.GRACE_SECONDS", 0.2)
    gate = threading.Event()

    class Stuck(Memory):
        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            gate.wait(300)
            return super().deliver(batch)

    stuck, healthy = Stuck(), Memory()
    settings = (replace(A, timeout_seconds=0.1), B)
    outcome = deliver_to(busy_home, {"a": stuck, "b": healthy}, *settings, seconds=1)
    try:
        assert outcome["a"]["state"] == "stuck" and outcome["b"]["state"] in ("ok", "behind")
        assert not is_well({"sinks": outcome})
        (row,) = read_table(busy_home.table(names.DELIVERIES), filter=pds.field("sink") == "a").to_pylist()
        assert (row["state"], row["reason"], row["delivered"]) == ("stuck", "it does not return", 0)
        assert deliver_to(busy_home, {"a": stuck, "b": healthy}, *settings, seconds=1)["a"]["state"] == "busy"
    finally:
        gate.set()


def test_delivery_waits_for_a_slow_sink_that_responds(busy_home: Home) -> None:
    """A batch that takes longer than the sink's time is finished in its run, not started again in each run."""

    class Halving(Memory):
        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            for _ in range(30):
                time.sleep(0.25)
                batch.on_response()
            return super().deliver(batch)

    halving = Halving(max_messages=1_000)
    first = deliver_to(busy_home, {"a": halving}, replace(A, timeout_seconds=0.4), seconds=1)["a"]
    assert (first["state"], len(halving.batches)) == ("behind", 1)
    assert first["delivered"] == len(halving.bodies) > 0


def test_an_unexpected_error_fails_only_its_sink(busy_home: Home) -> None:
    class Broken(Memory):
        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            raise ValueError("https://a.example/?token=hidden")

    healthy = Memory()
    outcome = deliver_to(busy_home, {"a": Broken(), "b": healthy})
    assert (outcome["a"]["state"], outcome["a"]["reason"], outcome["b"]["state"]) == ("failed", "ValueError", "ok")
    (row,) = read_table(busy_home.table(names.DELIVERIES), filter=pds.field("sink") == "a").to_pylist()
    assert (row["state"], row["reason"]) == ("failed", "ValueError")


def test_an_error_repeats_no_delivered_message(busy_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error outside the sink ends the run between two saves of the position."""
    letters: list[Any] = []

    def breaks(home: Home, rows: list[dict[str, Any]]) -> None:
        letters.append(rows)
        raise RetryableError("the store does not answer", "run this again")

    class Refusing(Memory):
        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            refusals = super().deliver(batch)
            return [Refusal(batch.messages[0], "no")] if len(self.batches) == 3 else refusals

    monkeypatch.setattr("pststream.pipeline.delivery.deliver.save_dead_letters", breaks)
    sink = Refusing(max_messages=1)
    assert deliver_to(busy_home, {"a": sink})["a"]["state"] == "failed"
    assert (len(sink.batches), len(letters)) == (3, 1)
    monkeypatch.undo()
    again = Memory()
    deliver_to(busy_home, {"a": again})
    first = {body["id"] for body in sink.bodies[:2]}
    assert len(first) == 2 and not first & {body["id"] for body in again.bodies}


def test_a_position_that_cannot_be_saved_is_a_failure(busy_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages until then count; the state is not `busy`."""

    saved, calls = delivery.save_progress, count()

    def lost_once(*arguments: Any) -> None:
        if next(calls) == 0:
            raise RetryableError("the store does not answer", "run this again")
        saved(*arguments)

    memory = Memory()
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "save_progress", lost_once)
        outcome = deliver_to(busy_home, {"a": memory})["a"]
    assert (outcome["state"], outcome["delivered"]) == ("failed", len(memory.bodies))
    assert memory.bodies and "the store does not answer" in outcome["reason"]
    assert not is_well({"sinks": {"a": outcome}})


def test_a_changed_limit_waits_for_the_next_batch(busy_home: Home) -> None:
    class Thrice(Memory):
        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            if len(self.batches) == 3:
                raise SinkDown("enough", permanent=True)
            return super().deliver(batch)

    first, rest = Thrice(), Memory()
    deliver_to(busy_home, {"a": first}, replace(A, limit=2, limit_seconds=60))
    deliver_to(busy_home, {"a": rest}, A)
    limited = [message for message in expected_messages(busy_home, 2, 60) if message["batch_id"] == 1]
    others = [message for message in expected_messages(busy_home) if message["batch_id"] > 1]
    assert first.bodies + rest.bodies == limited + others


def test_a_new_sink_can_start_at_a_later_batch(busy_home: Home) -> None:
    memory = Memory()
    deliver_to(busy_home, {"a": memory}, replace(A, from_batch=3))
    assert memory.bodies == [message for message in expected_messages(busy_home) if message["batch_id"] == 3]


def test_dead_letters_are_replayed(busy_home: Home) -> None:
    memory = Memory()
    sink = Failing(memory, refused=0.5)
    deliver_to(busy_home, {"a": sink})
    expected = expected_messages(busy_home)
    first = {message["id"] for message in memory.bodies}
    settings = Settings(sinks=(A,))
    letters = list_letters(busy_home, settings, "a", 1_000)
    assert {row["message_id"] for row in letters} == {m["id"] for m in expected} - first
    assert {row["reason"] for row in letters} == {"refused on purpose"}

    def again() -> dict[str, Any]:
        return replay_letters(busy_home, settings, "a", opener=lambda _: sink)["sinks"]["a"]

    assert again() == {"delivered": 0, "dead": len(letters), "reason": None}
    sink.down = 1.0
    assert again()["reason"] == "down on purpose"
    sink.down, sink.refused = 0.0, 0.0
    assert again() == {"delivered": len(letters), "dead": 0, "reason": None}
    assert sorted(memory.bodies, key=lambda m: m["id"]) == sorted(expected, key=lambda m: m["id"])
    assert again()["delivered"] == 0 and list_letters(busy_home, settings, None, 10) == []


def test_the_position_is_saved_during_a_run(busy_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr("pststream.state.deliveries.COMPACT_FILES", 5)
    memory = Memory()
    deliver_to(busy_home, {"a": memory})
    rows = read_table(busy_home.table(names.DELIVERIES)).to_pylist()
    assert len(rows) > 10 and sum(row["delivered"] for row in rows) == len(memory.bodies)
    assert len(list(Path(busy_home.table(names.DELIVERIES), "_delta_log").glob("*.json"))) == len(rows) + 2


def test_unknown_sinks_and_none(busy_home: Home) -> None:
    assert deliver(busy_home, Settings()) == {"sinks": {}}
    with pytest.raises(UsageError, match="'c' is unknown"):
        deliver(busy_home, Settings(sinks=(A, B)), "c")


def test_a_batch_that_takes_long_to_sort_advances_in_each_run(busy_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a run starts with the first message, or a large batch would never be delivered."""
    real = Outbox.messages

    def slowly(self: Outbox, batch_id: int, limit: Limit, skip: int = 0) -> Iterator[Message]:
        time.sleep(1.2)
        yield from real(self, batch_id, limit, skip)

    monkeypatch.setattr(Outbox, "messages", slowly)
    memory = Memory(1_000)
    counts = []
    while not counts or deliver_one_run(busy_home, memory, counts)["batches_left"]:
        counts.append(len(memory.batches))
    assert counts[-1] >= 2 and memory.bodies == expected_messages(busy_home)


def deliver_one_run(home: Home, memory: Memory, counts: list[int]) -> dict[str, Any]:
    """Deliver in one run, which advances."""
    outcome = deliver_to(home, {"a": memory}, seconds=1)["a"]
    assert outcome["state"] in ("behind", "ok") and len(memory.batches) > counts[-1]
    return outcome


def test_a_sink_that_is_up_again_has_all_its_tries(busy_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "FIRST_WAIT", 0.0)

    class Scripted(Memory):
        """Is down where its script says so."""

        script = [True] * 5 + [False, True, True, True]

        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            if self.script and self.script.pop(0):
                raise SinkDown("not now")
            return super().deliver(batch)

    sink = Scripted()
    runs = [deliver_to(busy_home, {"a": sink}, replace(A, tries=4))["a"] for _ in range(3)]
    assert [(run["state"], run["failures"]) for run in runs] == [("down", 4), ("down", 1), ("ok", 3)]
    assert sink.bodies == expected_messages(busy_home)


def test_a_missing_target_fails_only_its_sink(busy_home: Home, tmp_path: Path) -> None:
    """A target may be in the environment of delivery only: other commands read the settings too."""
    good = SinkSettings("good", "file", str(tmp_path / "delivered"))
    settings = Settings(sinks=(SinkSettings("bad", "webhook"), good))
    outcome = deliver(busy_home, settings)["sinks"]
    assert (outcome["bad"]["state"], outcome["good"]["state"]) == ("failed", "ok")
    assert "PSTSTREAM_SINK_BAD_TARGET" in outcome["bad"]["reason"]
    assert "PSTSTREAM_SINK_BAD_TARGET" in replay_letters(busy_home, settings)["sinks"]["bad"]["reason"]


ONE_SINK = Settings(sinks=(SinkSettings("a", "file", "unused"),))

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


def deliver_all(home: Home, sink: Memory) -> dict[str, Any]:
    outcome: dict[str, Any] = deliver(home, ONE_SINK, opener=lambda _: sink)["sinks"]["a"]
    return outcome


def test_long_fields_are_cut_and_all_messages_arrive(old_home: Home) -> None:
    sink = Memory()
    outcome = deliver_all(old_home, sink)
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
    outcome = deliver_all(old_home, sink)
    assert (outcome["state"], outcome["delivered"], outcome["refused"]) == ("ok", 4, 4)
    assert [one["object"]["object_id"] for one in sink.bodies] == ["short"] * 4
    letters = list_letters(old_home, ONE_SINK, None, 10)
    assert {letter["reason"] for letter in letters} == {"larger than 1000 bytes, the bound of this kind of sink"}
    assert replay_letters(old_home, ONE_SINK, opener=lambda _: sink)["sinks"]["a"]["dead"] == 4
    sink.max_bytes = 1_000_000
    assert replay_letters(old_home, ONE_SINK, opener=lambda _: sink)["sinks"]["a"] == {
        "delivered": 4, "dead": 0, "reason": None
    }  # fmt: skip


TWO_SINKS = Settings(sinks=tuple(SinkSettings(name, "file", "x") for name in "ab"), delivery_seconds=20)


def test_sinks_wait_until_they_have_all_batches(hand_home: Home) -> None:
    assert waiting_sinks(hand_home, TWO_SINKS) == waiting_sinks(hand_home, Settings()) == []
    keys = add_subscriptions(hand_home, 4)
    for seed in (1, 2):
        add_matched_batch(hand_home, keys, 6, seed=seed)
        assert waiting_sinks(hand_home, TWO_SINKS) == ["a", "b"]
        deliver(hand_home, TWO_SINKS, only="a", opener=lambda sink: Memory())
        assert waiting_sinks(hand_home, TWO_SINKS) == ["b"]
        deliver(hand_home, TWO_SINKS, opener=lambda sink: Memory())
        assert waiting_sinks(hand_home, TWO_SINKS) == []
    later = replace(TWO_SINKS, sinks=(SinkSettings("c", "file", "x", from_batch=3),))
    assert waiting_sinks(hand_home, later) == []


def test_a_sink_that_is_down_or_fails_waits(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sink: SinkSettings) -> Memory:
        raise SinkDown("not today") if sink.name == "a" else OSError

    add_matched_batch(hand_home, add_subscriptions(hand_home, 4), 6, seed=1)
    deliver(hand_home, TWO_SINKS, opener=lambda sink: Memory())
    deliver(hand_home, TWO_SINKS, opener=fail)
    assert waiting_sinks(hand_home, TWO_SINKS) == ["a", "b"], "no batch is left, but each needs attention"
