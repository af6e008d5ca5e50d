"""The messages of a home follow from its tables, one by one, in order."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pststream.base import names
from pststream.base.errors import PstError
from pststream.pipeline.delivery import message_rows
from pststream.pipeline.delivery import outbox as pair_messages
from pststream.pipeline.delivery.outbox import Limit, Outbox
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests.matched_homes import add_matched_batch, add_subscriptions, retractions_of
from tests.oracles.delivery import expected_messages
from tests.unit.reports.commands.homes import add_batch, add_file, copy_of, match_row, thing


def messages(home: Home, limit: int = 0, seconds: int = 1) -> list[dict[str, Any]]:
    outbox = Outbox(home)
    listed = [m for batch in outbox.batches.tolist() for m in outbox.messages(batch, Limit(limit, seconds))]
    for message in listed:
        body = json.loads(message.body)
        shown = (body["id"], body["kind"], body["subscription"]["subscription_id"])
        assert (message.id, message.kind, message.subscription_id) == shown
    return [json.loads(message.body) for message in listed]


@pytest.fixture(scope="module")
def busy_home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Three batches: two in one minute, the third with retractions, and one that is not done. No test writes to it."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("busy") / "home")
    keys = add_subscriptions(home, 9)
    matched = add_matched_batch(home, keys, 12, seed=1, minutes=60)
    add_matched_batch(home, keys, 7, seed=2, minutes=60.5)
    add_batch(home, minutes=90)
    add_matched_batch(home, keys, 5, seed=3, minutes=120, retractions=retractions_of(matched, keys[2]))
    seq = add_file(home, "objects", [thing(1, "late", 200)])
    add_batch(home, [match_row(seq << 32 | 1, "late", 200, keys)], done=False)
    return home


@pytest.mark.parametrize("limit", [0, 1, 3, 8])
@pytest.mark.parametrize("seconds", [1, 60, 86_400])
def test_messages_follow_from_the_tables(busy_home: Home, limit: int, seconds: int) -> None:
    listed = messages(busy_home, limit, seconds)
    assert listed == expected_messages(busy_home, limit, seconds)
    kinds = {message["kind"] for message in listed}
    assert kinds == {"matched", "retracted"} | ({"digest"} if limit in (1, 3) else kinds & {"digest"})
    assert len({message["id"] for message in listed}) == len(listed)


@pytest.mark.parametrize("limit", [0, 2])
def test_in_small_windows_and_from_any_position(busy_home: Home, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    expected = expected_messages(busy_home, limit, 60)
    monkeypatch.setattr(pair_messages, "WINDOW", 5)
    monkeypatch.setattr(pair_messages, "DIGEST_WINDOW", 2)
    monkeypatch.setattr(message_rows, "MAX_BYTES", 200)
    monkeypatch.setattr(pair_messages, "SortedRows", lambda columns, folder: sorted_rows(columns, folder, 11))
    assert messages(busy_home, limit, 60) == expected
    outbox = Outbox(busy_home)
    for batch_id in outbox.batches.tolist():
        mine = [message for message in expected if message["batch_id"] == batch_id]
        for skip in range(0, len(mine) + 1, 4):
            rest = outbox.messages(batch_id, Limit(limit, 60), skip)
            assert [json.loads(message.body) for message in rest] == mine[skip:]


sorted_rows = pair_messages.SortedRows


def test_a_long_text_is_cut(hand_home: Home) -> None:
    keys = add_subscriptions(hand_home, 1)
    seq = add_file(hand_home, "objects", [thing(1, "long", 5, text="coffee " * 2_000 + "free")])
    add_batch(hand_home, [match_row(seq << 32 | 1, "long", 5, keys)])
    (message,) = messages(hand_home)
    assert (len(message["object"]["text"]), message["object"]["text_cut"]) == (4_000, True)
    whole = read_table(hand_home.table(names.OBJECTS)).to_pylist()[0]["text"]
    assert whole.startswith(message["object"]["text"])


def test_a_large_digest_lists_a_hundred_objects(hand_home: Home) -> None:
    keys = add_subscriptions(hand_home, 2)
    rows = [thing(row, f"o{row}") for row in range(1, 251)]
    seq = add_file(hand_home, "objects", rows)
    add_batch(hand_home, [match_row(seq << 32 | row["row"], row["object_id"], 0, keys) for row in rows])
    listed = messages(hand_home, limit=3)
    digests = [message for message in listed if message["kind"] == "digest"]
    assert [(d["count"], len(d["objects"])) for d in digests] == [(247, 100), (247, 100)]
    assert listed == expected_messages(hand_home, 3)


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


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("seconds", [1, 60, 86_400])
def test_batches_that_were_delivered_long_ago_are_not_read(busy_home: Home, limit: int, seconds: int) -> None:
    whole = Outbox(busy_home)
    for first in whole.batches.tolist():
        late = Outbox(busy_home, first, seconds)
        assert late.batches.tolist()[-1] == whole.batches.tolist()[-1]
        for batch in whole.batches[whole.batches >= first].tolist():
            listed = [[m.body for m in box.messages(batch, Limit(limit, seconds))] for box in (late, whole)]
            assert listed[0] == listed[1]
    assert len(Outbox(busy_home, int(whole.batches[-1]), 1).batches) == 1
