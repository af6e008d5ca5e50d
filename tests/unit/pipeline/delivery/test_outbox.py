"""The messages of matches and of changes of answers follow from the tables of a home, one by one, in order."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from pststream.base import names
from pststream.base.errors import PstError
from pststream.base.utc_times import utc_now
from pststream.delivery.sinks.contract import MessageBatch, Refusal, SinkDown
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery import message_rows
from pststream.pipeline.delivery import outbox as pair_messages
from pststream.pipeline.delivery.deliver import deliver
from pststream.pipeline.delivery.message_rows import SortedRows, StoredWords
from pststream.pipeline.delivery.outbox import Limit, Outbox
from pststream.pipeline.upkeep import old_rows
from pststream.pipeline.upkeep.erase import erase
from pststream.queries.kinds.knn import KNN, NEAREST
from pststream.queries.kinds.registry import KINDS
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import log_key
from tests.command_process import ROOT
from tests.docs.fences import blocks
from tests.fuzz.cases import seeds
from tests.matched_homes import STANDING, add_matched_batch, add_standing, add_subscriptions, retractions_of
from tests.oracles.delivery import expected_messages
from tests.sinks import Memory
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    at,
    copy_of,
    insertion,
    log_row,
    match_row,
    thing,
)

sorted_rows = pair_messages.SortedRows


def messages(home: Home, limit: int = 0, seconds: int = 1) -> list[dict[str, Any]]:
    outbox = Outbox(home)
    listed = [m for batch in outbox.batches.tolist() for m in outbox.messages(batch, Limit(limit, seconds))]
    for message in listed:
        body = json.loads(message.body)
        shown = (body["id"], body["kind"], body["subscription"]["subscription_id"])
        assert (message.id, message.kind, message.subscription_id) == shown
    return [json.loads(message.body) for message in listed]


def test_a_long_text_is_cut(hand_home: Home) -> None:
    keys = add_subscriptions(hand_home, 1)
    seq = add_file(hand_home, "objects", [thing(1, "long", 5, text="coffee " * 2_000 + "free")])
    add_batch(hand_home, [match_row(seq << 32 | 1, "long", 5, keys)])
    (message,) = messages(hand_home)
    assert (len(message["object"]["text"]), message["object"]["text_cut"]) == (4_000, True)
    whole = read_table(hand_home.table(names.OBJECTS)).to_pylist()[0]["text"]
    assert whole.startswith(message["object"]["text"])


def test_inconsistent_tables_are_an_error(hand_home: Home) -> None:
    keys = add_subscriptions(hand_home, 1)
    add_batch(hand_home, [match_row(77 << 32 | 1, "unknown", 5, keys)])
    with pytest.raises(PstError, match="restore them from one backup"):
        messages(hand_home)


def test_temporary_files_are_gone(busy_home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(pair_messages, "SortedRows", lambda columns, folder: sorted_rows(columns, folder, 4))
    outbox = Outbox(busy_home)
    begun = outbox.messages(int(outbox.batches[0]), Limit())
    next(begun)
    assert np.any([path.suffix == ".npy" for path in folder.rglob("*")])
    begun.close()
    assert not list(folder.iterdir())


SETTINGS = Settings(sinks=(SinkSettings("a", "file", "unused"),))
KINDS_OF_MESSAGES = {"matched", "retracted", "entered", "left", "report"}


@pytest.fixture(scope="module")
def busy_home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Matches and changes in four batches, two of which start in one minute; no test writes to it."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("busy") / "home")
    keys, standing = add_subscriptions(home, 4), add_standing(home, 7)
    matched = add_matched_batch(home, keys, 12, seed=1, minutes=60, standing=standing[:5])
    add_matched_batch(home, keys, 7, seed=2, minutes=60.5, standing=standing)
    add_matched_batch(home, keys, 5, seed=3, minutes=120, retractions=retractions_of(matched, keys[2]))
    add_matched_batch(home, [], 5, seed=4, minutes=180, standing=standing)
    return home


@pytest.fixture(scope="module")
def whole_home(busy_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A copy of that home with a batch that found nothing, and one that is not done. No test writes to it."""
    home = copy_of(Path(busy_home.path), tmp_path_factory.mktemp("whole") / "home")
    add_batch(home, minutes=190)
    seq = add_file(home, "objects", [thing(1, "late", 200)])
    add_batch(home, [match_row(seq << 32 | 1, "late", 200, [log_key(1, 1)])], done=False)
    return home


@pytest.mark.parametrize(("limit", "seconds"), [(0, 1), (1, 60), (3, 86_400), (8, 1)])
def test_messages_follow_from_the_tables(whole_home: Home, limit: int, seconds: int) -> None:
    listed = messages(whole_home, limit, seconds)
    assert listed == expected_messages(whole_home, limit, seconds)
    assert len({message["id"] for message in listed}) == len(listed)
    kinds = {message["kind"] for message in listed}
    assert kinds - {"digest"} == KINDS_OF_MESSAGES and ("digest" in kinds) == bool(limit)
    if not limit:
        assert {message["correction"] for message in listed if message["kind"] == "report"} == {True, False}
    if limit == 1:
        assert {name for message in listed for name in ("objects", "reports") if name in message} == {
            "objects", "reports"
        }  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize("limit", [0, 2])
def test_in_small_windows_and_from_any_position(whole_home: Home, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    expected = expected_messages(whole_home, limit, 60)
    monkeypatch.setattr(pair_messages, "WINDOW", 5)
    monkeypatch.setattr(pair_messages, "DIGEST_WINDOW", 2)
    monkeypatch.setattr(pair_messages, "SortedRows", lambda columns, folder, _=0: sorted_rows(columns, folder, 11))
    monkeypatch.setattr(message_rows, "MAX_BYTES", 200)
    assert messages(whole_home, limit, 60) == expected
    outbox = Outbox(whole_home)
    for batch_id in outbox.batches.tolist():
        mine = [message for message in expected if message["batch_id"] == batch_id]
        for skip in range(0, len(mine) + 1, 4):
            rest = outbox.messages(batch_id, Limit(limit, 60), skip)
            assert [json.loads(message.body) for message in rest] == mine[skip:]


@pytest.mark.parametrize(("limit", "seconds"), [(0, 1), (1, 60), (2, 60), (3, 86_400)])
def test_batches_that_were_delivered_long_ago_are_not_read(whole_home: Home, limit: int, seconds: int) -> None:
    """A report is a correction all the same: the stream time before the first batch is known."""
    whole = Outbox(whole_home)
    for first in whole.batches.tolist():
        late = Outbox(whole_home, first, seconds)
        assert late.batches.tolist()[-1] == whole.batches.tolist()[-1]
        for batch in whole.batches[whole.batches >= first].tolist():
            listed = [[m.body for m in box.messages(batch, Limit(limit, seconds))] for box in (late, whole)]
            assert listed[0] == listed[1]
    assert len(Outbox(whole_home, int(whole.batches[-1]), 1).batches) == 1


def test_a_home_without_changes_does_not_open_the_log(hand_home: Home) -> None:
    keys = add_subscriptions(hand_home, 2)
    add_matched_batch(hand_home, keys, 5, seed=1)
    expected = expected_messages(hand_home)
    (Path(hand_home.table(names.ANSWER_LOG)) / "_delta_log").rename(Path(hand_home.path) / "away")
    assert messages(hand_home) == expected and expected


def test_erased_objects_are_shown_by_their_times_and_erased_subscriptions_have_no_message(
    busy_home: Home, tmp_path: Path
) -> None:
    home = copy_of(Path(busy_home.path), tmp_path / "home")
    before = messages(home)
    changes = [message for message in before if message["kind"] in ("entered", "left")]
    object_id, subscription_id = changes[0]["object"]["object_id"], changes[-1]["subscription"]["subscription_id"]
    assert erase(home, SETTINGS, [object_id], [subscription_id])["rows"]["objects"] == 1
    after = messages(home)
    assert after == expected_messages(home)
    assert subscription_id not in {message["subscription"]["subscription_id"] for message in after}
    erased = [message for message in after if "object" in message and message["object"]["object_id"] is None]
    assert erased and object_id not in json.dumps(after)
    known = {message["id"]: message for message in before}
    for message in erased:
        one = known[message["id"]]
        assert (message["row"], message["rank"]) == (one["row"], one["rank"])
        assert one["object"]["object_id"] == object_id and message["object"]["ts"] == one["object"]["ts"]


def test_an_object_that_enters_again_has_the_same_row_and_another_id(hand_home: Home) -> None:
    key = log_key(add_file(hand_home, "requests", [insertion(1, "s") | STANDING[0]]), 1)
    one = {"object_key": log_key(add_file(hand_home, "objects", [thing(1, "o", 5)]), 1), "ts": at(5), "value": 7.5}
    for batch_id, event in enumerate(("entered", "left", "entered"), 1):
        row = log_row(batch_id, event=event, subscription_key=key, rank=1, **one)
        add_answer_rows(hand_home, names.ANSWER_LOG, [row], part="change")
        add_file(hand_home, "objects", [thing(1, f"o{batch_id}", 5)])
        add_batch(hand_home, stream_time=at(batch_id), changes={"knn": 1})
    listed = messages(hand_home)
    assert [(m["kind"], m["as_of"][11:19], m["distance_m"]) for m in listed] == [
        ("entered", "00:01:00", 7.5), ("left", "00:02:00", 7.5), ("entered", "00:03:00", 7.5)
    ]  # fmt: skip
    assert len({m["row"] for m in listed}) == 1 and len({m["id"] for m in listed}) == 3


def test_large_digests_list_a_hundred(hand_home: Home) -> None:
    seq = add_file(hand_home, "requests", [insertion(n, f"s{n}") | STANDING[kind] for n, kind in ((1, 0), (2, 2))])
    near, words, boxes = log_key(seq, 1), log_key(seq, 2), add_subscriptions(hand_home, 1)
    objects = add_file(hand_home, "objects", [thing(n, f"o{n}") for n in range(1, 131)])
    rows: list[dict[str, Any]] = []
    for n in range(1, 131):
        rows.append(log_row(1, subscription_key=near, object_key=log_key(objects, n), ts=at(0), value=float(n), rank=n))
        rows += [
            log_row(1, subscription_key=words, ts=at(60 * n), term=word, count=1, rank=rank)
            for rank, word in enumerate(("tea", "cake"), 1)
        ]
    add_answer_rows(hand_home, names.ANSWER_LOG, rows, part="change")
    matches = [match_row(log_key(objects, n), f"o{n}", 0, boxes) for n in range(1, 131)]
    add_batch(hand_home, matches, stream_time=at(60 * 130), changes={"knn": 130, "frequent_terms": 260})
    listed = messages(hand_home, limit=3)
    assert listed == expected_messages(hand_home, 3)
    digests = [message for message in listed if message["kind"] == "digest"]
    assert [(d["count"], len(d.get("objects") or d["reports"])) for d in digests] == [(127, 100)] * 3
    assert len(listed) == 12


def test_a_report_without_words_has_no_row(hand_home: Home) -> None:
    """The row of an empty report is none of a message; a late object corrects it."""
    seq = add_file(hand_home, "requests", [insertion(1, "s1") | STANDING[2]])
    words, none = log_key(seq, 1), {"term": "", "count": 0, "rank": 1}
    corrected = [{"event": "left", **none}, {"event": "entered", "term": "tea", "count": 1, "rank": 1}]
    rows = [log_row(1, subscription_key=words, ts=at(60), **none)]
    rows += [log_row(2, subscription_key=words, ts=at(60), **row) for row in corrected]
    add_answer_rows(hand_home, names.ANSWER_LOG, rows, part="change")
    for batch in (1, 2):
        add_batch(hand_home, stream_time=at(60 * batch), changes={"frequent_terms": batch})
    listed = messages(hand_home)
    assert listed == expected_messages(hand_home, 0)
    assert [(m["correction"], m["left"], m["entered"]) for m in listed] == [
        (False, [], []),
        (True, [], [{"rank": 1, "term": "tea", "count": 1}]),
    ]


def test_messages_and_examples_have_the_schema_of_the_page(busy_home: Home) -> None:
    """docs/delivery.md has the schema as JSON, and an example of an `entered` and of a `report`."""
    texts = [block.text for block in blocks(ROOT / "docs" / "delivery.md") if block.words[:1] == ("json",)]
    schema, *others = sorted((json.loads(text) for text in texts), key=lambda one: "$schema" not in one)
    jsonschema.Draft202012Validator.check_schema(schema)
    validate = jsonschema.Draft202012Validator(schema).validate
    examples = [one | {name: "0" * 32 for name in ("id", "row") if name in one} for one in others]
    examples = [one for one in examples if one["kind"] != "matched"]
    assert [one["kind"] for one in examples] == ["entered", "report"]
    listed = [m for limit in (0, 2) for m in messages(busy_home, limit) if "k" in m["subscription"]]
    assert {one["kind"] for one in listed} == {"entered", "left", "report", "digest"}
    for message in (*listed, *examples):
        validate(message)
        with pytest.raises(jsonschema.ValidationError):
            validate(message | {"other": 1})


def test_a_kind_shows_the_rows_of_its_answers(busy_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of one's own needs no change of delivery: its contract shows its rows."""
    own = replace(KNN, answers=replace(NEAREST, value_column="nearness", sign=-1))
    monkeypatch.setitem(KINDS, "knn", own)
    shown = {
        message["id"]: message
        for message in messages(busy_home, limit=2)
        if message["subscription"].get("kind") == "knn"
    }
    rows = [row for m in shown.values() for row in m.get("objects", [m])]
    assert rows and all(row["nearness"] <= 0 < row["rank"] and "distance_m" not in row for row in rows)


class DownAfter(Memory):
    """Accepts so many batches of three messages, and is down then."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Accept a batch, or fail."""
        self.left -= 1
        if self.left < 0:
            raise SinkDown("enough", permanent=True)
        return super().deliver(batch)


def deliver_to(home: Home, sink: Memory) -> str:
    return str(deliver(home, SETTINGS, opener=lambda _: sink)["sinks"]["a"]["state"])


def stop_in_batch(home: Home, batch_id: int, left: int) -> DownAfter:
    """Deliver until some messages of a batch are left, in so many batches of three."""
    counts = [sum(1 for _ in Outbox(home).messages(batch, Limit())) for batch in range(1, batch_id + 1)]
    sink = DownAfter(sum(-(-count // 3) for count in counts) - left)
    assert deliver_to(home, sink) == "down"
    return sink


@pytest.mark.parametrize("subscription_id", ["m1", "m3"])
def test_a_batch_whose_subscription_is_erased_in_its_middle_begins_again(
    busy_home: Home, tmp_path: Path, subscription_id: str
) -> None:
    home = copy_of(Path(busy_home.path), tmp_path / "home")
    sink = stop_in_batch(home, 2, left=1)
    erase(home, SETTINGS, (), [subscription_id])
    expected = expected_messages(home)
    later = Memory()
    assert deliver_to(home, later) == "ok"
    received = {body["id"] for body in (*sink.bodies, *later.bodies)}
    assert {message["id"] for message in expected} <= received
    assert later.bodies == expected[len(expected) - len(later.bodies) :]


def test_a_batch_whose_old_changes_are_removed_in_its_middle_begins_again(busy_home: Home, tmp_path: Path) -> None:
    home = copy_of(Path(busy_home.path), tmp_path / "home")
    sink = stop_in_batch(home, 1, left=6)
    before = expected_messages(home)
    removed = old_rows.remove_old_changes(home, replace(SETTINGS, keep="answer_log=1d"), utc_now())
    assert removed["answer_log"] > 0
    expected, later = expected_messages(home), Memory()
    assert len(expected) < len(before)
    assert deliver_to(home, later) == "ok"
    assert later.bodies == expected[len(expected) - len(later.bodies) :]
    assert {message["id"] for message in expected} <= {body["id"] for body in (*sink.bodies, *later.bodies)}


@pytest.mark.parametrize("run_rows", [1, 7, 100, 10_000])
@seeds(5)
def test_order_and_blocks(tmp_path: Path, seed: int, run_rows: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-5, 40, (3, 500))
    sorter = SortedRows(3, tmp_path, run_rows)
    for part in np.array_split(rows, 13, axis=1):
        sorter.add(part)
    blocks = list(sorter.sorted_rows())
    assert np.array_equal(np.concatenate(blocks, axis=1), rows[:, np.lexsort(rows[::-1])])
    firsts = [set(block[0].tolist()) for block in blocks]
    assert all(not a & b for i, a in enumerate(firsts) for b in firsts[i + 1 :]), "a value was torn apart"
    assert bool(list(tmp_path.iterdir())) == (run_rows < 500)
    widest = int(np.unique(rows[0], return_counts=True)[1].max())
    assert max(block.shape[1] for block in blocks) <= 2 * run_rows + len(list(tmp_path.iterdir())) * widest


@seeds(5)
def test_words_of_many_parts(tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    known = ["a", "früher", "x" * 70_000, "日本", None, ""]
    drawn = [[rnd.choice(known) for _ in range(rnd.randrange(30))] for _ in range(20)]
    with StoredWords(tmp_path / "words") as words:
        places = np.concatenate([words.add(pa.array(part, pa.string())) for part in drawn])
        order = np.array(rnd.sample(range(len(places)), len(places)))
        flat = [word for part in drawn for word in part]
        assert words.read(places[order]) == [flat[n] for n in order.tolist()]
        assert words.read(words.add(pa.array(["later", "a"]))) == ["later", "a"], "words may follow after a read"
    distinct = sum(len(set(part) - {None}) for part in drawn)
    assert (tmp_path / "words").read_bytes().count(b"\n") == distinct + 2, "a word is written once for each part"


def test_no_words(tmp_path: Path) -> None:
    with StoredWords(tmp_path / "words") as words:
        assert words.read(words.add(pa.array([None, None], pa.string()))) == [None, None]
        assert words.read(np.empty(0, np.int64)) == []
