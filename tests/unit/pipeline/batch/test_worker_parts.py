"""Workers are divided among tasks of equal expected cost, and every object still meets each of its workers once."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.pipeline.batch.route_task import NEW_OBJECTS, ROUTE_COUNTS
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


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.integers(1, 40), st.integers(0, 1000))
def test_every_row_goes_to_one_part_of_its_worker(costs: list[float], tasks: int, rows: int) -> None:
    parts = divide_workers(np.array(costs), tasks)
    assert len(parts.workers) <= len(costs) + tasks and set(parts.slots.tolist()) == set(range(tasks))
    batch = pa.record_batch({"row": pa.array(range(rows), pa.int64())})
    for worker in range(len(costs)):
        sent = list(parts.send([(worker, NEW_OBJECTS, batch), (worker, ROUTE_COUNTS, batch)]))
        assert {int(parts.workers[part]) for part, _, _ in sent} == {worker}
        found = [row for _, tag, some in sent if tag == NEW_OBJECTS for row in some.column("row").to_pylist()]
        assert found == list(range(rows))
        assert [some.num_rows for _, tag, some in sent if tag == ROUTE_COUNTS] == [rows]


def test_a_small_batch_is_not_divided() -> None:
    assert slice_rows(10_000, 64) == 20_000 and slice_rows(10**8, 2) == 250_000 and slice_rows(2_000_000, 40) == 25_000
    assert whole_workers(3).workers.tolist() == [0, 1, 2] and not len(whole_workers(3).slots)
