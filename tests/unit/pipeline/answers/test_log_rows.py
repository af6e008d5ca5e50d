"""Rows of `answer_log` come back as the entries and limits that a batch, or several, have logged."""

from itertools import pairwise

import numpy as np
import pytest

from pststream.answers.contract import Asked, Changes, Folded, Logged, Thresholds, Values
from pststream.base import names
from pststream.pipeline.answers import log_rows
from pststream.pipeline.answers.bucket_snapshots import write_snapshot
from pststream.pipeline.answers.log_rows import FoldedWriter, read_state
from pststream.pipeline.answers.unit_candidates import read_thresholds
from pststream.state.data_files import commit_files
from pststream.state.home import Home

INF = float("inf")


def folded(entries: list[tuple], limits: list[tuple], changes: list[tuple] = ()) -> Folded:
    """Make what a batch changes: (subscription, object, ts, value), (subscription, value, ts, object, reset)."""

    def arrays(rows: list[tuple], *types: type) -> list[np.ndarray]:
        return [np.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]

    number, real, flag = np.int64, np.float32, np.bool_
    return Folded(
        Values(*arrays(entries, number, number, number, real)),
        Thresholds(*arrays(limits, number, real, number, number, flag)),
        Changes(*arrays(changes, number, flag, np.int32, number, number, real)),
        Asked(*(np.empty(0, number) for _ in range(3))),
    )


def commit(home: Home, batch_id: int, bucket: int, rows: Folded) -> None:
    writer = FoldedWriter(home, batch_id, bucket)
    writer.write(rows)
    commit_files(home, names.ANSWER_LOG, writer.close(), application="test", transaction=100 * batch_id + bucket)


def read(home: Home, bucket: int, after: int, up_to: int) -> tuple[list[tuple], list[tuple]]:
    parts = list(read_state(home, bucket, after, up_to, [np.arange(5, 9)]))
    for before, part in pairwise(parts):
        assert (part.entries.subscription > before.up_to).all() and (part.thresholds.subscription > before.up_to).all()
    return (
        sorted(row for part in parts for row in zip(*(column.tolist() for column in part.entries))),
        sorted(row for part in parts for row in zip(*(column.tolist() for column in part.thresholds))),
    )


def test_a_batch_is_read_as_it_was_written(hand_home: Home) -> None:
    entries = [(5, 50, 500, 1.5), (6, 60, 600, 2.5)]
    limits = [(5, INF, names.NO_TIME, -1, True), (6, 2.5, 600, 60, False)]
    commit(hand_home, 1, 0, folded(entries, limits, [(5, True, 1, 50, 500, 1.5)]))
    commit(hand_home, 1, 1, folded([(7, 70, 700, 3.5)], []))
    assert read(hand_home, 0, 0, 1) == (entries, limits)
    assert read(hand_home, 1, 0, 1) == ([(7, 70, 700, 3.5)], [])
    assert read(hand_home, 2, 0, 1) == read(hand_home, 0, 1, 1) == ([], [])


@pytest.mark.parametrize("read_rows", [1, 4, 1_000])
def test_a_reset_makes_earlier_entries_void_and_the_last_limit_counts(
    hand_home: Home, read_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "READ_ROWS", read_rows)
    commit(hand_home, 1, 0, folded([(5, 50, 1, 1.0), (6, 60, 1, 1.0)], [(5, 9.0, 1, 90, True), (6, 8.0, 1, 80, True)]))
    commit(hand_home, 2, 0, folded([(5, 51, 2, 2.0), (6, 61, 2, 2.0)], [(5, 7.0, 2, 51, True)]))
    commit(hand_home, 3, 0, folded([(5, 52, 3, 3.0), (6, 62, 3, 3.0)], [(6, 4.0, 3, 62, False)]))
    every = ([(5, 51, 2, 2.0), (5, 52, 3, 3.0), (6, 60, 1, 1.0), (6, 61, 2, 2.0), (6, 62, 3, 3.0)],
             [(5, 7.0, 2, 51, True), (6, 4.0, 3, 62, True)])  # fmt: skip
    assert read(hand_home, 0, 0, 3) == every
    assert read(hand_home, 0, 2, 3) == ([(5, 52, 3, 3.0), (6, 62, 3, 3.0)], [(6, 4.0, 3, 62, False)])


def test_the_last_thresholds_of_all_buckets(hand_home: Home) -> None:
    def thresholds(after: int, up_to: int, snapshot: bool = False) -> dict[int, float]:
        keys, values = read_thresholds(hand_home, after, up_to, snapshot)
        assert (np.diff(keys) > 0).all()
        return dict(zip(keys.tolist(), values.tolist(), strict=True))

    assert thresholds(0, 0, snapshot=True) == {}
    commit(hand_home, 1, 0, folded([(5, 50, 500, -0.5)], [(5, -0.5, 500, 50, True), (6, INF, names.NO_TIME, -1, True)]))
    commit(hand_home, 1, 1, folded([], [(7, -0.25, 700, 70, True)]))
    commit(hand_home, 2, 0, folded([(6, 61, 610, -0.75)], [(5, -0.625, 500, 50, False)]))
    commit(hand_home, 3, 1, folded([], [(7, -0.125, 710, 71, True)]))
    assert thresholds(0, 1) == {5: -0.5, 6: INF, 7: -0.25}
    assert thresholds(1, 2) == {5: -0.625} and thresholds(3, 9) == {}
    assert thresholds(0, 3) == {5: -0.625, 6: INF, 7: -0.125}
    kept = folded(
        [(5, 50, 500, -0.5), (5, 51, 510, -0.75)], [(5, -0.5, 500, 50, True), (8, INF, names.NO_TIME, -1, True)]
    )
    file = write_snapshot(hand_home, 2, 0, [Logged(kept.entries, kept.thresholds)])
    assert file is not None
    commit_files(hand_home, names.ANSWERS, [file], application="snapshots", transaction=2)
    assert thresholds(2, 3, snapshot=True) == {5: -0.5, 7: -0.125, 8: INF}
