"""Divide the objects of the workers among the tasks that match them, so that each task has the same expected cost.

A worker of a plan is a share of the subscriptions; a hot one may have most of the work of a batch. The workers lie side
by side on a line, each as long as its expected cost, and the line is cut into one piece for each task. So a worker may
be matched by several tasks, each with a part of its objects and all of its segments, and a task may serve several
workers. Pairs do not depend on it, as each object is matched by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.state.home import Home
from pststream.state.slices import SLICE_ROWS
from pststream.tables.delta_tables import greatest_value, read_table
from pststream.tables.ledgers import RECENT_BATCHES

MIN_TASK_OBJECTS = 20_000
"""Objects of a batch for each task that matches them; with fewer, starting the task costs more than it saves."""

TASKS_PER_CORE = 2

LEAST_SHARE = 0.01
"""A worker is expected to cost at least this share of the mean, though it has cost less before."""


@dataclass(frozen=True)
class WorkerParts:
    """Parts of the workers, in the order of the workers, and the tasks that match them: each has neighbours.

    workers  int64[n]: the worker of each part
    stops    float64[n]: share of the worker's objects up to the end of the part; 1 for its last part
    slots    int64[n]: the task that serves the part, ascending, from 0
    """

    workers: np.ndarray
    stops: np.ndarray
    slots: np.ndarray

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.slots[-1]) + 1

    def divide(
        self, objects: pa.RecordBatch, grouped: np.ndarray, slices: np.ndarray
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the objects of each task that has some, in the order of their workers, with the column `worker`.

        grouped, slices: int32[k], int64[workers+1]: positions of the objects of each worker, and its slice of them
        """
        counts = np.diff(slices)
        stops = slices[self.workers] + np.rint(self.stops * counts[self.workers]).astype(np.int64)
        last = np.flatnonzero(np.append(np.diff(self.slots) > 0, True))
        worker = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        for task, start, stop in zip(self.slots[last].tolist(), [0, *stops[last]], stops[last]):
            if start < stop:
                rows = objects.take(pa.array(grouped[start:stop]))
                yield task, rows.append_column("worker", pa.array(worker[start:stop]))


def slice_rows(objects: int, cores: int) -> int:
    """Return how many rows of a batch a routing task reads: there are two tasks a core, unless they would be small."""
    return max(MIN_TASK_OBJECTS, min(SLICE_ROWS, objects // (TASKS_PER_CORE * cores)))


def whole_workers(workers: int, tasks: int) -> WorkerParts:
    """Return one part for each worker, served by so many tasks, or by one for each worker if that is fewer."""
    return WorkerParts(np.arange(workers), np.ones(workers), np.arange(workers) * min(tasks, workers) // workers)


def divide_workers(costs: np.ndarray, tasks: int) -> WorkerParts:
    """Return parts of equal expected cost for each of `tasks` tasks.

    costs: float64[workers], expected cost of each worker's objects, in any unit
    """
    costs = np.maximum(costs, LEAST_SHARE * costs.mean()) if costs.any() else np.ones(len(costs))
    ends = np.cumsum(costs / costs.sum()) * tasks
    ends[-1] = tasks
    borders = np.unique(np.round(np.concatenate([[0.0], ends, np.arange(tasks + 1)]), 9))
    middles = (borders[:-1] + borders[1:]) / 2
    workers = np.searchsorted(ends, middles)
    begins = np.concatenate([[0.0], ends[:-1]])
    stops = (borders[1:] - begins[workers]) / (ends - begins)[workers]
    is_last = np.append(np.diff(workers) > 0, True)
    return WorkerParts(workers, np.where(is_last, 1.0, stops), middles.astype(np.int64))


def worker_parts(home: Home, plan_version: int, workers: int, objects: int, cores: int) -> WorkerParts:
    """Return the parts that match a batch: whole workers, unless there are enough objects to divide them.

    The costs are CPU seconds of the last batch under the plan; before the first one, those that the plan predicts.
    """
    tasks = TASKS_PER_CORE * cores
    if objects < tasks * MIN_TASK_OBJECTS:
        return whole_workers(workers, tasks)
    return divide_workers(_expected_costs(home, plan_version, workers), tasks)


def _expected_costs(home: Home, plan_version: int, workers: int) -> np.ndarray:
    """Return the cost of each worker's objects: float64[workers]."""
    address = home.table(names.UNIT_LOADS)
    of_plan = (pds.field("unit") == names.WHOLE_WORKER) & (pds.field("plan_version") == plan_version)
    recent = of_plan & (pds.field("batch_id") > greatest_value(address, "batch_id") - RECENT_BATCHES)
    rows = read_table(address, ["batch_id", "worker", "cpu_seconds"], recent)
    if rows.num_rows:
        batch, worker, cost = (rows.column(name).to_numpy() for name in rows.column_names)
        worker, cost = worker[batch == batch.max()], cost[batch == batch.max()]
    else:
        planned = pds.field("plan_version") == plan_version
        units = read_table(home.table(names.PLAN_UNITS), ["worker", "load"], planned)
        worker, cost = units.column("worker").to_numpy(), units.column("load").to_numpy()
    return np.bincount(worker, cost, workers)
