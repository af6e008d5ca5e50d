"""The node-local cache: whole entries only, bounded, shared."""

import os
import stat
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from pststream.matching.segments import SegmentCache, build_segment
from pststream.state.slices import Slice, read_slices
from pststream.storage.array_cache import TornFileError, map_arrays, write_arrays
from tests.unit.matching.test_matcher import piece, rows_of


def deletions(path: Path, count: int) -> str:
    pq.write_table(pa.table({"subscription_key": np.arange(count)[::-1], "end_at": np.arange(count)}), path)
    return str(path)


def test_arrays_come_back(tmp_path):
    arrays = {
        "a": np.arange(5),
        "none": np.empty((0, 3)),
        "b": np.ones((2, 3), np.float32),
        "c": np.array([True, False]),
    }
    write_arrays(tmp_path / "f", arrays)
    found = map_arrays(tmp_path / "f")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert np.array_equal(found[name], array) and not found[name].flags.writeable


def test_a_new_cache_is_for_its_user_alone(tmp_path):
    path = deletions(tmp_path / "d.parquet", 3)
    SegmentCache(str(tmp_path / "cache"), 10**9).deletions(path)
    (folder,) = {file.parent for file in (tmp_path / "cache").rglob("*") if file.is_file()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("keep", [0, 10, 16, 40, -1])
def test_torn_files_are_told(tmp_path, keep):
    write_arrays(tmp_path / "f", {"a": np.arange(50)})
    content = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(content[:keep])
    with pytest.raises(TornFileError):
        map_arrays(tmp_path / "f")


def test_files_that_delta_rs_rewrote_have_texts_as_views(tmp_path):
    table = str(tmp_path / "table")
    rows = rows_of([piece(key, [[key]]) for key in (1, 2, 3)])
    write_deltalake(table, rows)
    DeltaTable(table).delete("subscription_key = 3")
    (path,) = DeltaTable(table).file_uris()
    assert pa.types.is_string_view(pq.read_schema(path).field("kind").type)
    pq.write_table(rows, tmp_path / "plain.parquet")
    segment = SegmentCache(str(tmp_path / "cache"), 10**9).segment((path, str(tmp_path / "plain.parquet")))
    assert len(segment.subscription_keys) == 5
    (batch,) = read_slices([Slice(path, 0, 3)], ["subscription_key", "kind"])
    assert batch.filter(pc.equal(batch.column("subscription_key"), 2)).column("kind").to_pylist() == [None]


def test_several_files_are_one_segment_of_all_their_rows(tmp_path):
    parts = [rows_of([piece(key, [[key]])]) for key in (3, 1)]
    for number, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{number}.parquet")
    paths = tuple(str(tmp_path / f"{number}.parquet") for number in range(2))
    cache = SegmentCache(str(tmp_path / "cache"), 10**9)
    both, alone = cache.segment(paths), cache.segment(paths[:1])
    assert sorted(both.subscription_keys.tolist()) == [1, 3] and alone.subscription_keys.tolist() == [3]
    assert cache.take_built().keys() == {paths, paths[:1]}
    expected = build_segment(pa.concat_tables(parts))
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(both, expected, strict=True))


def test_the_cache_is_bounded(tmp_path):
    cache = SegmentCache(str(tmp_path / "cache"), 50_000)
    kept = []
    for number in range(10):
        path = deletions(tmp_path / f"{number}.parquet", 1000)
        kept.append(cache.deletions(path)["keys"])
        for entry in cache.folder.iterdir():
            os.utime(entry, ns=(number, number))
    assert sum(entry.stat().st_size for entry in cache.folder.iterdir()) <= 50_000
    assert all(np.array_equal(keys, np.arange(1000)) for keys in kept)


def test_what_other_versions_of_the_code_left_counts_too(tmp_path):
    left = tmp_path / "segments-of-before" / "entry"
    left.parent.mkdir()
    left.write_bytes(bytes(100_000))
    os.utime(left, (1, 1))
    cache = SegmentCache(str(tmp_path), 100_000)
    cache.deletions(deletions(tmp_path / "new.parquet", 1_000))
    assert not left.exists()


def test_tasks_may_build_the_same_entry_at_once(tmp_path):
    path = deletions(tmp_path / "d.parquet", 5000)
    found = []
    caches = [SegmentCache(str(tmp_path / "cache"), 10**9) for _ in range(8)]
    threads = [
        threading.Thread(target=lambda c=cache: found.append(c.deletions(path)["keys"].sum())) for cache in caches
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [np.arange(5000).sum()] * 8
    assert len(list(caches[0].folder.iterdir())) == 1


def test_another_process_may_empty_the_folder_while_an_entry_is_written(tmp_path, monkeypatch):
    path = deletions(tmp_path / "d.parquet", 9)
    cache = SegmentCache(str(tmp_path / "cache"), 10**9)
    really_replace = os.replace

    def replace(source, target):
        SegmentCache(str(tmp_path / "cache"), 10**9).clear()
        really_replace(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert len(cache.deletions(path)["ends"]) == 9


def test_another_thread_may_forget_a_mapped_entry_while_it_is_looked_up(tmp_path):
    path = deletions(tmp_path / "d.parquet", 9)
    cache = SegmentCache(str(tmp_path / "cache"), 10**9)

    class Mapped(dict):
        def __contains__(self, paths: object) -> bool:
            known = super().__contains__(paths)
            self.clear()
            return known

    cache._mapped = Mapped()
    for _ in range(2):
        assert len(cache.deletions(path)["ends"]) == 9
