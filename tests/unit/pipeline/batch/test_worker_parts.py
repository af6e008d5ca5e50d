"""Workers are divided among tasks of equal expected cost, and every object still meets each of its workers once."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.routing.dispatch import group_by_worker
from pststream.pipeline.batch.worker_parts import divide_workers, slice_rows, whole_workers


def shares(costs: np.ndarray, tasks: int) -> np.ndarray:
    """Return the share of the whole cost that each task has, by counting."""
    parts = divide_workers(costs, tasks)
    starts = np.where(np.append(True, np.diff(parts.workers) > 0), 0.0, np.append(0.0, parts.stops[:-1]))
    cost = (parts.stops - starts) * costs[parts.workers] / costs.sum()
    return np.bincount(parts.slots, cost, tasks)


@pytest.mark.parametrize("cores", [2, 8, 64])
@pytest.mark.parametrize("workers", [1, 8, 400])
def test_a_hot_worker_is_no_bound(cores: int, workers: int) -> None:
    costs = np.full(workers, 0.4 / max(workers - 1, 1))
    costs[workers // 2] = 0.6
    assert shares(costs, 2 * cores).max() <= 1.3 / (2 * cores)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.integers(1, 40), st.integers(0, 300), st.booleans())
def test_every_object_goes_once_to_each_of_its_workers(costs: list[float], tasks: int, pairs: int, whole: bool) -> None:
    workers = len(costs)
    parts = whole_workers(workers, tasks) if whole else divide_workers(np.array(costs), tasks)
    assert len(parts.workers) <= workers + tasks and set(parts.slots.tolist()) == set(range(parts.tasks))
    assert parts.tasks == (min(tasks, workers) if whole else tasks)
    objects = pa.record_batch({"row": pa.array(range(50), pa.int64())})
    pair = np.unique(np.random.default_rng(pairs).integers(0, 50 * workers, pairs))
    row, worker = (pair // workers).astype(np.int32), (pair % workers).astype(np.int32)
    sent = list(parts.divide(objects, *group_by_worker(row, worker, workers)))
    served = {task: set(parts.workers[parts.slots == task].tolist()) for task in range(parts.tasks)}
    found = []
    for task, rows in sent:
        assert set(rows["worker"].to_pylist()) <= served[task]
        found += zip(rows["worker"].to_pylist(), rows["row"].to_pylist())
    assert found == sorted(zip(worker.tolist(), row.tolist()))


def test_a_small_batch_is_not_divided() -> None:
    assert slice_rows(10_000, 64) == 20_000 and slice_rows(10**8, 2) == 250_000 and slice_rows(2_000_000, 40) == 25_000
    parts = whole_workers(10_000, 4)
    assert parts.workers.tolist() == list(range(10_000)) and (parts.stops == 1).all() and parts.tasks == 4
