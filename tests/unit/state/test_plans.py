"""Rows of plans as the table is now, and the files of the index that belong to each plan, built into few segments."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base import names
from pststream.base.errors import PstError
from pststream.matching.segments import MAX_POSTINGS
from pststream.plans.plan import DispatchGrid, space_plan
from pststream.queries.text.expression import MAX_TERMS
from pststream.state.data_files import DataFile, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import SMALL_BYTES, IndexFile, delete_older_indexes, index_files, segment_files
from pststream.state.plans import Retiring, current_version, find_plan_row, save_plan
from pststream.tables.delta_tables import table_version

PLAN = space_plan("grid", DispatchGrid(0.0, 0.0, 1.0, 1.0, 1, 1), np.zeros(1), np.zeros(1), 1)


def figures(seconds: float) -> dict[str, Any]:
    loads = {"load_total": 1.0, "load_max": 1.0, "load_min": 1.0, "imbalance": 1.0, "worker_loads": [1.0]}
    return {**loads, "options": {}, "seconds": seconds}


def seconds_of(home: Home, version: int) -> float | None:
    row = find_plan_row(home, version)
    return row and row["seconds"]


def test_a_row_is_found_once_it_is_written(hand_home: Home) -> None:
    assert (current_version(hand_home), find_plan_row(hand_home, 1)) == (0, None)
    for version in (1, 2):
        save_plan(hand_home, version, PLAN, figures(version))
        assert current_version(hand_home) == version
        assert [seconds_of(hand_home, one) for one in (1, 2, 3)] == [1.0, [None, 2.0][version - 1], None]


def test_a_caller_may_change_the_row_that_it_gets(hand_home: Home) -> None:
    save_plan(hand_home, 1, PLAN, figures(1))
    row = find_plan_row(hand_home, 1)
    assert row is not None
    row["worker_loads"].append(2.0)
    assert find_plan_row(hand_home, 1) == {**row, "worker_loads": [1.0]}


def test_a_plan_that_a_restore_has_undone_is_not_found(hand_home: Home, tmp_path: Path) -> None:
    """After the restore another plan gets the number, and the table the version, that the undone one had."""
    save_plan(hand_home, 1, PLAN, figures(1))
    shutil.copytree(hand_home.path, tmp_path / "backup")
    save_plan(hand_home, 2, PLAN, figures(2))
    assert seconds_of(hand_home, 2) == 2.0
    shutil.rmtree(hand_home.path)
    shutil.copytree(tmp_path / "backup", hand_home.path)
    save_plan(hand_home, 2, PLAN, figures(3))
    assert seconds_of(hand_home, 2) == 3.0


def file(home: Home, name: str, worker: int, low: int, high: int, index: int = 1) -> DataFile:
    Path(home.table(names.WORKER_INDEX), name).write_bytes(b"-")
    partition = {"index_version": index, "worker": worker}
    return DataFile(name, 1, 1, partition, {"subscription_key": low}, {"subscription_key": high})


def plans_of_files(home: Home, version: int) -> dict[str, int]:
    return {Path(f.path).name: f.plan_version for f in index_files(home, version)}


def test_files_by_plan(hand_home: Home) -> None:
    save_plan(hand_home, 1, PLAN, figures(0.0))
    pieces = [
        file(hand_home, "old", 0, 1, 10),
        file(hand_home, "new", 0, 11, 20),
        file(hand_home, "other", 0, 1, 1, index=3),
    ]
    files = [*pieces, file(hand_home, "gone", -1, 5, 15)]
    commit_files(hand_home, names.WORKER_INDEX, files, application="test", transaction=1)
    assert plans_of_files(hand_home, 1) == {"old": 1, "new": 1, "gone": 1}
    save_plan(hand_home, 2, PLAN, figures(0.0), 1, Retiring(1, 10))
    assert plans_of_files(hand_home, 2) == {"old": 1, "new": 2, "gone": 2}
    save_plan(hand_home, 3, PLAN, figures(0.0), 1)
    assert plans_of_files(hand_home, 3) == {"old": 3, "new": 3, "gone": 3}
    commit_files(hand_home, names.WORKER_INDEX, [file(hand_home, "both", 0, 10, 11)], application="test", transaction=2)
    assert plans_of_files(hand_home, 3)["both"] == 3
    with pytest.raises(PstError, match="both"):
        index_files(hand_home, 2)


def test_what_a_killed_planner_did_not_take_out_is(hand_home: Home) -> None:
    files = [file(hand_home, name, 0, 1, 1, index) for name, index in (("old", 1), ("now", 3), ("next", 4))]
    commit_files(hand_home, names.WORKER_INDEX, files, application="test", transaction=1)
    for _ in range(2):
        delete_older_indexes(hand_home, 3)
        assert sorted(f.path for f in list_data_files(hand_home, names.WORKER_INDEX)) == ["next", "now"]
    assert table_version(hand_home.table(names.WORKER_INDEX)) == 2, "the second time there was nothing to do"


def small(worker: int, key: int, plan: int = 1, size: int = 1, rows: int = 1) -> IndexFile:
    return IndexFile(f"{worker}-{plan}-{key:03}", worker, size, key, rows, plan)


def test_files_are_added_to_segments_like_one_to_a_binary_number() -> None:
    sizes = {n: [len(s.paths) for s in segment_files(small(0, key) for key in range(n))] for n in range(14)}
    assert sizes[0] == [] and sizes[1] == [1] and sizes[6] == [4, 2] and sizes[8] == [8] and sizes[13] == [8, 4, 1]


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_chance_in_rows_does_not_change_when_workers_build(files: int, chance) -> None:
    """Rows differ by a factor of at most 4/3: two files of the fewest have SIMILAR_ROWS times the rows of any third."""
    drawn = [small(0, key, rows=chance.randint(86, 114)) for key in range(files)]
    even = [small(0, key) for key in range(files)]
    assert [len(s.paths) for s in segment_files(drawn)] == [len(s.paths) for s in segment_files(even)]


def test_many_rows_are_not_built_again_for_few() -> None:
    rows = [60, 10, 10, 10, 10, 10]
    files = [small(0, key, rows=count) for key, count in enumerate(rows)]
    assert [len(s.paths) for s in segment_files(files)] == [1, 4, 1]
    later = [small(0, key, rows=10) for key in (6, 7, 8)]
    assert [len(s.paths) for s in segment_files(files + later)] == [9]


@pytest.mark.parametrize("rows", [1, 300, 400_000, 600_000])
def test_a_segment_has_fewer_postings_than_it_can_number(rows: int) -> None:
    segments = segment_files(small(0, key, rows=rows) for key in range(12))
    most_cells, most_words = 4, MAX_TERMS
    assert max(s.rows for s in segments) * most_cells * most_words <= MAX_POSTINGS
    assert sum(s.rows for s in segments) == 12 * rows and (rows > 1_000 or len(segments) == 2)


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(1, 2), st.booleans()), max_size=30), st.randoms())
def test_each_file_of_pieces_is_in_one_segment(drawn: list[tuple[int, int, bool]], chance) -> None:
    files = [small(w, key, plan, SMALL_BYTES if large else 1) for key, (w, plan, large) in enumerate(drawn)]
    segments = segment_files(files)
    by_path = {file.path: file for file in files}
    assert sorted(path for s in segments for path in s.paths) == sorted(f.path for f in files if f.worker >= 0)
    for segment in segments:
        served = [by_path[path] for path in segment.paths]
        assert {(f.worker, f.plan_version) for f in served} == {(segment.worker, segment.plan_version)}
        assert max(f.max_key for f in served) == segment.max_key
        assert len(served) == 1 or all(f.bytes < SMALL_BYTES for f in served)
    chance.shuffle(files)
    assert segment_files(files) == segments
