"""Changes of answers are delivered as batches make them: the messages of all batches add up to the answers."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home
from tests.oracles.delivery import expected_messages
from tests.standing_worlds import standing_home, write_standing_world
from tests.worlds import WrittenWorld, write_rows

pytestmark = pytest.mark.e2e

FILES = 5
Row = dict[str, Any]


def some_reports(rnd: random.Random, count: int) -> list[Row]:
    """Insertions of the kind `frequent_terms`; the last one ends in between."""
    return [
        {
            "op": "insert", "subscription_id": f"f{n}", "kind": "frequent_terms", "k": rnd.choice((1, 3)),
            "bbox": [-180, -90, 180, 90], "window": "6h", "step": rnd.choice(("2h", "5h")),
            "created_at": worlds.moment(rnd.choice((0, 30))), "expires_at": worlds.moment(70) if n == count else None,
        }
        for n in range(1, count + 1)
    ]  # fmt: skip


def messages_in(folder: Path) -> list[Row]:
    """Read the messages of a file sink, in their order."""
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]


def without_words(messages: list[Row]) -> list[Row]:
    """Leave out the words: the oracle also lists those of alternatives that another clause implies."""
    return [{name: value for name, value in one.items() if name != "words"} for one in messages]


class Delivered:
    """A home whose batches were delivered one by one, and a backup of it from before the last two of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world: WrittenWorld = write_standing_world(folder / "files", 31, FILES)
        self.home = standing_home(folder / "home", self.world, delivery_seconds=600)
        self.home.add_sink("all", kind="file", target=str(folder / "all"), messages=50)
        self.home.add_sink("few", kind="file", target=str(folder / "few"), limit=2, limit_seconds=1_000_000_000)
        reports = write_rows(folder / "reports.jsonl", some_reports(random.Random(1), 6))
        self.home.ingest("requests", [reports])
        for number in range(FILES):
            if number == FILES - 2:
                self.home.run("backup", "--out", folder / "backup")
            self.advance(self.home, number)

    def advance(self, home: Home, number: int) -> None:
        """Ingest the next file of each log, match it, and deliver."""
        home.ingest("requests", [self.world.requests[number]])
        home.ingest("objects", [self.world.objects[number]])
        home.match("--max-objects", "20")
        sinks = home.run("deliver")["sinks"]
        assert {sink["state"] for sink in sinks.values()} == {"ok"}


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> Delivered:
    return Delivered(tmp_path_factory.mktemp("delivered"))


def test_messages_are_those_of_the_twin(delivered: Delivered) -> None:
    state = State(delivered.home.path)
    everything, few = (messages_in(delivered.folder / name) for name in ("all", "few"))
    assert without_words(everything) == without_words(expected_messages(state))
    assert without_words(few) == without_words(expected_messages(state, 2, 1_000_000_000))
    kinds = Counter(message["kind"] for message in everything)
    assert kinds["matched"] and min(kinds[kind] for kind in ("entered", "left", "report")) > 20
    digests = [message for message in few if message["kind"] == "digest"]
    assert any("row" in one for message in digests for one in message.get("objects", []))
    assert any("reports" in message for message in digests)


def exported(home: Home, what: str) -> list[Row]:
    out = home.path.parent / f"{what}.parquet"
    home.run("export", what, "--out", out)
    rows: list[Row] = pq.read_table(out).to_pylist()
    return rows


def iso(row: Row, name: str) -> str:
    return str(row[name].replace(tzinfo=None).isoformat()) + "Z"


class Receiver:
    """Keeps the rows that entered by `row`, and of reports the words by subscription and tick."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.reports: dict[tuple[str, str], set[tuple[str, int]]] = {}

    def receive(self, messages: list[Row]) -> None:
        """Take messages in their order."""
        for message in messages:
            name = message["subscription"]["subscription_id"]
            if message["kind"] == "left":
                del self.rows[message["row"]]
            elif message["kind"] == "entered":
                assert message["row"] not in self.rows
                value = message["distance_m"] if "distance_m" in message else message["score"]
                self.rows[message["row"]] = name, message["object"]["object_id"], message["object"]["ts"], value
            elif message["kind"] == "report":
                words = self.reports.setdefault((name, message["tick"]), set())
                assert message["correction"] or not words
                words -= {(row["term"], row["count"]) for row in message["left"]}
                words |= {(row["term"], row["count"]) for row in message["entered"]}

    def forget(self, name: str) -> None:
        """Drop what is kept of a subscription."""
        self.rows = {row: one for row, one in self.rows.items() if one[0] != name}
        self.reports = {report: words for report, words in self.reports.items() if report[0] != name}

    def assert_answers(self, answers: list[Row]) -> None:
        """Assert that what is kept are the exported answers."""
        expected = {
            (a["subscription_id"], a["object_id"], iso(a, "ts"), a["distance_m"] if a["kind"] == "knn" else a["score"])
            for a in answers
            if a["kind"] != "frequent_terms"
        }
        assert set(self.rows.values()) == expected and len(expected) == len(self.rows) > 20
        last: dict[str, str] = {}
        for (name, tick), words in self.reports.items():
            last[name] = max(tick, last.get(name, "")) if words else last.get(name, "")
        of_terms = [a for a in answers if a["kind"] == "frequent_terms"]
        assert {(a["subscription_id"], iso(a, "as_of"), a["term"], a["count"]) for a in of_terms} == {
            (name, tick, *word) for name, tick in last.items() if tick for word in self.reports[name, tick]
        }


def test_messages_add_up_to_the_answers(delivered: Delivered) -> None:
    receiver = Receiver()
    receiver.receive(messages_in(delivered.folder / "all"))
    receiver.assert_answers(exported(delivered.home, "answers"))


def test_messages_after_an_erasure_add_up_to_the_answers(delivered: Delivered, tmp_path: Path) -> None:
    """The erased object leaves with the next batch, without its id; no message names an erased subscription."""
    receiver = Receiver()
    receiver.receive(messages_in(delivered.folder / "all"))
    home = Home(tmp_path / "home")
    shutil.copytree(delivered.home.path, home.path)
    settings = home.path / "pststream.toml"
    settings.write_text(settings.read_text().replace(str(delivered.folder), str(tmp_path)))
    answers = exported(home, "answers")
    object_id = Counter(a["object_id"] for a in answers if a["object_id"] is not None).most_common(1)[0][0]
    kept = next(a["subscription_id"] for a in answers if a["object_id"] == object_id)
    erased = next(a["subscription_id"] for a in answers if a["subscription_id"] != kept)
    home.run("erase", "--object-id", object_id, "--subscription-id", erased)
    last = {"object_id": "last", "ts": worlds.moment(worlds.STEPS), "lon": 0.0, "lat": 0.0, "text": "coffee tea"}
    home.ingest("objects", [write_rows(tmp_path / "last.jsonl", [last])])
    home.match()
    assert {sink["state"] for sink in home.run("deliver")["sinks"].values()} == {"ok"}
    sent = messages_in(tmp_path / "all")
    gone = [message for message in sent if message["kind"] == "left" and message["object"]["object_id"] is None]
    assert {receiver.rows[message["row"]][1] for message in gone} == {object_id}
    receiver.receive(sent)
    assert erased not in {message["subscription"]["subscription_id"] for message in sent}
    receiver.forget(erased)
    receiver.assert_answers(exported(home, "answers"))
    assert without_words(sent) == without_words(expected_messages(State(home.path))[-len(sent) :])


def test_late_objects_make_corrections(delivered: Delivered) -> None:
    """The first message of a report is none, unless its tick had no word; every later one is."""
    seen: set[tuple[str, str]] = set()
    corrections = 0
    for message in messages_in(delivered.folder / "all"):
        if message["kind"] == "report":
            key = message["subscription"]["subscription_id"], message["tick"]
            assert message["correction"] if key in seen else not message["left"]
            corrections += key in seen
            seen.add(key)
    assert corrections > 3


def test_the_end_of_a_subscription_sends_what_was_left(delivered: Delivered) -> None:
    ended = [r for r in exported(delivered.home, "changes") if r["change"] == "left"]
    sent = [message for message in messages_in(delivered.folder / "all") if message["kind"] == "left"]
    assert len(sent) == sum(row["kind"] != "frequent_terms" for row in ended) > 0


def test_a_restored_home_sends_the_same_messages_again(delivered: Delivered) -> None:
    folders = [delivered.folder / name for name in ("all", "few")]
    before = {file: file.read_bytes() for folder in folders for file in folder.iterdir()}
    for folder in folders:
        shutil.rmtree(folder)
    restored = Home(delivered.folder / "backup")
    for number in (FILES - 2, FILES - 1):
        delivered.advance(restored, number)
    for folder in folders:
        again = {file: file.read_bytes() for file in folder.iterdir()}
        assert again and again.items() <= before.items()
