"""Divide the objects of the workers among the tasks that match them, so that each task has the same expected cost.

A worker of a plan is a share of the subscriptions; a hot one may have most of the work of a batch. The workers lie side
by side on a line, each as long as its expected cost, and the line is cut into one piece for each task. So a worker may
be matched by several tasks, each with a part of its objects and all of its segments, and a task may serve several
workers. Pairs do not depend on it, as each object is matched by itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.dataset as pds

from pststream.base import names
from pststream.engine.contract import SentRows
from pststream.pipeline.batch.route_task import ROUTE_COUNTS
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
    """The parts of a stage that matches objects, in the order of the workers.

    workers  int64[n]: the worker of each part
    stops    float64[n]: share of the worker's objects up to the end of the part; 1 for its last part
    slots    int64[n]: the task that serves the part; empty: the engine decides
    """

    workers: np.ndarray
    stops: np.ndarray
    slots: np.ndarray

    def send(self, sent: Iterable[SentRows]) -> Iterator[SentRows]:
        """Send rows for workers to their parts; counts go to the first part of their worker."""
        first = np.searchsorted(self.workers, np.arange(self.workers[-1] + 2))
        for worker, tag, rows in sent:
            parts = range(first[worker], first[worker + 1])
            if tag == ROUTE_COUNTS or len(parts) == 1:
                yield int(parts[0]), tag, rows
                continue
            stops = np.rint(self.stops[parts.start : parts.stop] * rows.num_rows).astype(np.int64)
            for part, start, stop in zip(parts, [0, *stops[:-1]], stops):
                yield part, tag, rows.slice(start, stop - start)


def slice_rows(objects: int, cores: int) -> int:
    """Return how many rows of a batch a routing task reads: there are two tasks a core, unless they would be small."""
    return max(MIN_TASK_OBJECTS, min(SLICE_ROWS, objects // (TASKS_PER_CORE * cores)))


def whole_workers(workers: int) -> WorkerParts:
    """Return one part for each worker."""
    return WorkerParts(np.arange(workers), np.ones(workers), np.empty(0, np.int64))


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
    """Return the parts that match a batch: whole workers, unless the batch has enough objects for two tasks a core.

    The costs are CPU seconds of the last batch under the plan; before the first one, those that the plan predicts.
    """
    tasks = TASKS_PER_CORE * cores
    if objects < tasks * MIN_TASK_OBJECTS:
        return whole_workers(workers)
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
