"""The id lookup returns the same rows as a full read, and reads each slice once a node."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.matching.segments import SegmentCache
from pststream.pipeline.ingest import deduplicate
from pststream.state.slices import Slice

COLUMNS = ["key", "id", "at"]


def stored(path: Path, rng: np.random.Generator, rows: int, group: int) -> pa.Table:
    """A file of rows with repeated ids, some of no bytes and some not in ASCII."""
    names = ["", "é", *(f"id-{number}" for number in range(40))]
    at = rng.integers(0, 9, rows)
    table = pa.table(
        {
            "key": pa.array(np.arange(rows)),
            "id": pa.array([names[place] for place in rng.integers(0, len(names), rows)], pa.string()),
            "at": pa.array(at, mask=at == 0),
        }
    )
    pq.write_table(table, path, row_group_size=group)
    return table


def look_up(cache: SegmentCache, part: Slice, wanted: list[str]) -> list[dict]:
    ids = deduplicate.IdSet(pa.array(wanted, pa.string()))
    batches = deduplicate.find_rows_by_id(cache, part, ("id",), COLUMNS, ids)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["key"])


@pytest.mark.parametrize("collide", [False, True], ids=["hashes", "all of one hash"])
def test_the_lookup_equals_a_full_read(tmp_path: Path, collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if collide:
        monkeypatch.setattr(deduplicate, "hash_texts", lambda _, offsets: np.zeros(len(offsets) - 1, np.int64))
    rng = np.random.default_rng(5)
    for number in range(20):
        path = tmp_path / f"{number}.parquet"
        table = stored(path, rng, int(rng.integers(1, 200)), 32)
        wanted = [f"id-{place}" for place in rng.choice(80, rng.integers(0, 20), replace=False)] + [""] * (number % 2)
        cache = SegmentCache(str(tmp_path / "cache"), 10**9)
        expected = [row for row in table.to_pylist() if row["id"] in wanted]
        # Slices begin where no row group does, too: each group is in one of them.
        parts = [Slice(str(path), first, first + 50) for first in range(0, table.num_rows, 50)]
        rows = [row for part in parts for row in look_up(cache, part, wanted)]
        assert sorted(rows, key=lambda row: row["key"]) == expected


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = stored(path, np.random.default_rng(6), 100, 50)
    part = Slice(str(path), 0, 100)
    before = look_up(SegmentCache(str(tmp_path / "cache"), 10**9), part, ["id-1"])
    path.unlink()
    again = look_up(SegmentCache(str(tmp_path / "cache"), 10**9), part, ["id-1", "é"])
    assert [row for row in again if row["id"] == "id-1"] == before
    assert len(again) == sum(name in ("id-1", "é") for name in table.column("id").to_pylist())
