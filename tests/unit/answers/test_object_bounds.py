"""Bounds of blocks of objects change no result, and the objects of a built state are numbered by time."""

from pathlib import Path
from types import MethodType

import numpy as np

from benchmarks.support.answers import answer_batches as made
from pststream.answers.bucket_file import read_buffers
from pststream.answers.contract import Logged, Values
from pststream.answers.fold import advance, fold, fold_answers
from pststream.kernels.answers.buffers import bound_objects

RECIPE = made.Recipe(2_000, 20, 20, 30, 10_000, 1_000, 3_000)


def fold_batches(path: Path, with_bounds: bool) -> list[np.ndarray]:
    """Fold three batches; return all arrays of the results, and of the buffers at the end."""
    arrays: list[np.ndarray] = []
    with made.make_bucket(path, RECIPE) as state:
        if not with_bounds:
            state.bound_objects = MethodType(lambda self, _: bound_objects(self.columns.object_rows[:0]), state)
        for batch_id in (1, 2, 3):
            candidates, end = made.make_batch(state, RECIPE, batch_id)
            # Every third object is late by up to half a window.
            late = np.where(candidates.object % 3 == 0, candidates.object % 5_000, 0)
            candidates = Values(candidates.subscription, candidates.object, candidates.object - late, candidates.value)
            folded = fold(state, made.none_inserted(), made.NO_DELETIONS, candidates, end)
            whole = fold_answers(state, folded, made.made_up_answers(folded.asked, end))
            advance(state, made.none_inserted(), made.NO_DELETIONS, [Logged(whole.entries, whole.thresholds)], end)
            arrays += [*whole.entries, *whole.thresholds, *whole.changes]
        arrays += [*read_buffers(state)[0], state.columns.oldest.copy()]
        assert len(state.bound_objects(np.arange(2_000)).oldest) == (with_bounds and 51)
    return arrays


def test_bounds_change_no_result(tmp_path: Path) -> None:
    with_bounds, without = (fold_batches(tmp_path / str(flag), flag) for flag in (True, False))
    assert len(with_bounds[0]) > 1_000
    for one, other in zip(with_bounds, without, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_built_state_numbers_objects_by_time(tmp_path: Path) -> None:
    with made.make_bucket(tmp_path / "bucket", RECIPE) as state:
        bounds = state.bound_objects(np.arange(2_000))
        assert len(bounds.oldest) > 30
        assert (bounds.oldest[1:] >= bounds.newest[:-1]).all()
        times = state.columns.object_rows[: int(state._header["objects"]), 0]
        assert bounds.oldest.tolist() == [times[at : at + 256].min() for at in range(0, len(times), 256)]
        assert bounds.newest.tolist() == [times[at : at + 256].max() for at in range(0, len(times), 256)]


def test_rows_without_a_window_need_no_bounds(tmp_path: Path) -> None:
    with made.make_bucket(tmp_path / "bucket", RECIPE) as state:
        rows = np.arange(2_000)
        assert len(state.bound_objects(rows).oldest) and not len(state.bound_objects(rows[:1]).oldest)
        state.columns.window_micros[:] = state.columns.window_objects[:] = 0
        assert not len(state.bound_objects(rows).oldest)
