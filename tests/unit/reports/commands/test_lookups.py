"""The latest matches of one subscription and of one object equal those of a slow reader."""

from pathlib import Path

import pytest

from pststream.ledgers.ledger_rows import log_key
from pststream.reports.commands import lookups
from pststream.reports.commands.lookups import MAX_OBJECTS_SHOWN, look_up_object, look_up_subscription
from pststream.reports.reading.table_reader import TableReader
from tests.matched_homes import add_matched_batch, add_subscriptions, retractions_of
from tests.unit.reports.commands.homes import add_batch, copy_of, match_row


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
