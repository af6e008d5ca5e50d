"""Read the measured loads of workers, test them for imbalance, and add up the loads under two active plans."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.planning.live_terms import keep_pieces
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.plans.imbalance import finite_imbalance, imbalance_of
from pststream.plans.plan import PartitionPlan
from pststream.plans.planner_sample import WorkloadSample
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.plans import Retiring, current_version, load_plan, read_plan_row, retiring_plan
from pststream.tables.delta_tables import greatest_value, read_table
from pststream.tables.ledgers import Ledger, read_batches


@dataclass(frozen=True)
class MeasuredLoads:
    """Measured loads over the last batches of a plan.

    cpu_seconds  float64[batches, workers]: of each worker in each batch
    tuples       int64[batches]: objects and requests
    first_key    greatest object key before the last batches, those under other plans included
    """

    cpu_seconds: np.ndarray
    tuples: np.ndarray
    first_key: int

    @property
    def batches(self) -> int:
        """The number of batches."""
        return len(self.cpu_seconds)

    @property
    def typical(self) -> np.ndarray:
        """The seconds of each worker if its share of all batches were its median share of a batch: float64[workers].

        Batches are weighted by their tuples; batches without any load do not count. The median leaves out work that
        happens once, such as building segments that a node lacks.
        """
        seconds = self.cpu_seconds.sum(axis=1)
        busy = seconds > 0.0
        if not busy.any():
            return np.zeros(self.cpu_seconds.shape[1])
        shares, weights = self.cpu_seconds[busy] / seconds[busy, None], np.maximum(self.tuples[busy], 1)
        order = np.argsort(shares, axis=0)
        middle = (np.cumsum(weights[order], axis=0) >= weights.sum() / 2).argmax(axis=0)
        medians = np.sort(shares, axis=0)[middle, np.arange(shares.shape[1])]
        return medians * (seconds.sum() / medians.sum()) if medians.any() else self.cpu_seconds.sum(axis=0)

    def violates(self, sigma: float) -> bool:
        """Whether the imbalance is over `sigma` in both halves of the batches, so that noise alone moves nothing."""
        halves = np.array_split(self.cpu_seconds, 2) if self.batches > 1 else [self.cpu_seconds]
        return all(imbalance_of(half.sum(axis=0)) > sigma for half in halves)

    @property
    def imbalance(self) -> float:
        """The greatest load over the least, of all batches."""
        return imbalance_of(self.cpu_seconds.sum(axis=0))


def is_out_of_balance(measured: MeasuredLoads, settings: Settings) -> bool:
    """Whether to move load: `sigma` is violated, over enough batches to be sure."""
    return measured.batches >= needed_batches(settings) and measured.violates(settings.sigma)


def needed_batches(settings: Settings) -> int:
    """Return the number of batches under a plan from which its balance is judged."""
    return min(2, settings.balance_batches)


def measure_loads(home: Home, version: int, batches: int) -> MeasuredLoads:
    """Return the loads of the workers in the last `batches` batches, without batches that ran under another plan, and
    without workers that only the retiring plan has.
    """
    last = greatest_value(home.table(names.BATCHES), "batch_id")
    recent = [b for b in read_batches(home, last - batches - 1) if b["status"] == "done"][-batches:]
    of_plan = [b for b in recent if b["plan_version"] == version]
    numbers = [b["batch_id"] for b in of_plan]
    workers = load_plan(home, version).workers
    of_workers = pds.field("batch_id").isin(numbers or [-1]) & (pds.field("unit") == names.WHOLE_WORKER)
    of_workers &= pds.field("worker") < workers
    rows = read_table(home.table(names.UNIT_LOADS), ["batch_id", "worker", "cpu_seconds"], of_workers)
    batch, worker, seconds = (rows.column(name).to_numpy() for name in rows.column_names)
    cpu_seconds = np.zeros((len(numbers), workers))
    np.add.at(cpu_seconds, (np.searchsorted(numbers, batch), worker), seconds)
    tuples = np.array([b["objects"] + b["requests"] for b in of_plan], np.int64)
    first_key = recent[0]["objects_after"] if recent else -1
    return MeasuredLoads(cpu_seconds, tuples, first_key)


def check_balance(home: Home, settings: Settings) -> dict[str, Any]:
    """Return the measured imbalance of the plan in force, and whether it violates `sigma` as for `balance local`.

    The imbalance is None while a worker is idle. Without a plan, plan_version is 0 and nothing is measured.
    """
    home.check()
    version = current_version(home)
    if version == 0:
        return {"plan_version": 0, "batches": 0, "measured_imbalance": 1.0, "sigma": settings.sigma, "violated": False}
    measured = measure_loads(home, version, settings.balance_batches)
    return {
        "plan_version": version,
        "batches": measured.batches,
        "measured_imbalance": finite_imbalance(measured.imbalance),
        "sigma": settings.sigma,
        "violated": is_out_of_balance(measured, settings),
    }


def split_sample(sample: WorkloadSample, retiring: Retiring) -> tuple[WorkloadSample, WorkloadSample]:
    """Return the sample twice: with the subscriptions of the retiring plan, and with those of the newer plan."""
    older = sample.piece_key <= retiring.to
    return keep_pieces(sample, older), keep_pieces(sample, ~older)


def combined_loads(
    home: Home, sample: WorkloadSample, cost: CostModel, plan: PartitionPlan, retiring: Retiring | None
) -> WorkerLoads:
    """Return the loads of the workers under `plan` and the plan that it retires; loads by unit are of `plan` only.

    Each plan serves its own subscriptions, separated by their keys (PS2Stream section V-B). An object that both plans
    send to a worker counts twice there: it is matched twice, with the subscriptions of each.
    """
    if retiring is None:
        return compute_worker_loads(sample, plan, cost)
    older, newer = split_sample(sample, retiring)
    old = compute_worker_loads(older, load_plan(home, retiring.plan_version), cost)
    new = compute_worker_loads(newer, plan, cost)
    workers = max(len(old.load), len(new.load))
    names_of_all = ("objects", "subscriptions", "reads", "load")
    both = {name: [of_workers(getattr(one, name), workers) for one in (old, new)] for name in names_of_all}
    return replace(new, **{name: older + newer for name, (older, newer) in both.items()})


def of_workers(values: np.ndarray, workers: int) -> np.ndarray:
    """Return the values of the first workers, 0 for those that the plan does not have: [workers]."""
    return np.pad(values[:workers], (0, max(workers - len(values), 0)))


def retiring_after(home: Home, version: int, kind: str) -> tuple[str, Retiring | None]:
    """Return the kind to log in `migrations` for an adjustment, and the plan that is retiring after it.

    Kind `global` is logged as `retire` if two plans are active already, since it then retires the older one.
    """
    if kind == "undo":
        return kind, plan_after_undo(home, version)[1]
    retiring = retiring_plan(read_plan_row(home, version))
    if kind == "local":
        return kind, retiring
    if kind == "plan":
        return kind, None
    if kind == "global" and retiring is None:
        return kind, Retiring(version, Ledger(home).requests_applied)
    return "retire", None


def plan_after_undo(home: Home, version: int) -> tuple[int, Retiring | None]:
    """Return the plan to put in force to undo the migration that made `version`, and the plan that is then retiring.

    The undo of a retirement assigns all subscriptions to the retired plan, and that of a plan for another number of
    workers to the newer of two plans before. No plan is retiring then: newer and older subscriptions may be in one file
    since, so the two plans cannot be separated again.
    """
    rows = read_table(home.table(names.MIGRATIONS), filter=pds.field("plan_version") == version).to_pylist()
    if not rows:
        raise UsageError(f"plan {version} was not made by a migration", "pststream plans list names those that were")
    if rows[0]["kind"] == "undo":
        raise UsageError(f"plan {version} already undoes a migration", "run: pststream balance local")
    before = rows[0]["plan_version_before"]
    if rows[0]["kind"] == "plan":
        return before, None
    retiring = retiring_plan(read_plan_row(home, before))
    return (retiring.plan_version, None) if retiring and rows[0]["kind"] == "retire" else (before, retiring)
