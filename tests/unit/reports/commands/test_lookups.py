"""The latest matches of one subscription and of one object equal those of a slow reader."""

from pathlib import Path

import pytest

from pststream.reports.commands import explain_rows, lookups
from pststream.reports.commands.explain_rows import read_insertions, read_objects
from pststream.reports.commands.lookups import MAX_OBJECTS_SHOWN, look_up_object, look_up_subscription
from pststream.tables.delta_tables import TableReader
from pststream.tables.ledgers import log_key
from tests.matched_homes import add_matched_batch, add_subscriptions, retractions_of
from tests.unit.reports.commands.homes import add_batch, add_file, copy_of, deletion, insertion, match_row, thing


@pytest.mark.parametrize("most", [lookups.MAX_PAIRS_KEPT, 1])
def test_latest_matches_equal_those_of_a_slow_reader(
    empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Over several batches with retracted pairs, and an unfinished batch, which does not count."""
    home = copy_of(empty_home, tmp_path / "home")
    keys = add_subscriptions(home, 6)
    rows = add_matched_batch(home, keys, 30, seed=1)
    gone = retractions_of(rows, keys[2])[:5]
    rows += add_matched_batch(home, keys, 30, seed=2, minutes=5, retractions=gone)
    add_batch(home, [match_row(log_key(9, 1), "ghost", 0, keys)], done=False)
    lost = {row["object_id"] for row in gone}
    for place, subscription in enumerate(keys, 1):
        objects = {row["object_id"] for row in rows if subscription in row["subscription_keys"]}
        objects -= lost if subscription == keys[2] else set()
        found = look_up_subscription(TableReader(home), f"s{place}")
        assert {match.other_id for match in found.matches} <= objects
        assert len(found.matches) == min(len(objects), MAX_OBJECTS_SHOWN)
        assert found.complete
    for row in rows[::7]:
        asked = {
            f"s{keys.index(k) + 1}" for r in rows if r["object_id"] == row["object_id"] for k in r["subscription_keys"]
        }
        asked -= {"s3"} if row["object_id"] in lost else set()
        with monkeypatch.context() as patch:
            patch.setattr(lookups, "MAX_PAIRS_KEPT", most)
            found_object = look_up_object(TableReader(home), row["object_id"])
        matched = {match.other_id for match in found_object.matches}
        assert matched == asked or (most == 1 and len(matched) <= 1)
        assert found_object.pairs == len(asked)


def test_of_an_id_with_very_many_rows_only_the_latest_are_read(
    empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copy_of(empty_home, tmp_path / "home")
    objects = [add_file(home, "objects", [thing(row, "o", row) for row in (1, 2, 3)]) for _ in range(2)]
    requests = [add_file(home, "requests", [insertion(row, "s") for row in (1, 2, 3)]) for _ in range(2)]
    add_file(home, "requests", [deletion(1, "s", 0, log_key(requests[1], 3))])
    monkeypatch.setattr(explain_rows, "MAX_PER_ID", 2)
    monkeypatch.setattr(explain_rows, "MAX_REQUESTS", 3)
    reader = TableReader(home)
    read: list[object] = []
    monkeypatch.setattr(
        reader, "rows", lambda *words: [read.append(row) or row for row in TableReader.rows(reader, *words)]
    )
    assert [one.key for one in read_objects(reader, "o")] == [log_key(objects[1], row) for row in (3, 2)]
    assert len(read) == 2
    latest, before = read_insertions(reader, "", "s")
    assert (latest.key, before.key) == tuple(log_key(requests[1], row) for row in (3, 2))
    assert len(latest.deletions) == 1 and len(read) == 2 + 3
