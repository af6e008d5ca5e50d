"""Read the CPU seconds of each worker in the last batches from the ledgers, and test them for imbalance."""

from dataclasses import dataclass

import numpy as np
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import greatest_value, read_table
from pststream.domain.imbalance import imbalance_of
from pststream.ledgers.log_end import read_batches
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.plans import load_plan


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
    """Return the loads of the workers in the last `batches` batches, without batches that ran under another plan."""
    last = greatest_value(home.table(names.BATCHES), "batch_id")
    recent = [b for b in read_batches(home, last - batches - 1) if b["status"] == "done"][-batches:]
    of_plan = [b for b in recent if b["plan_version"] == version]
    numbers = [b["batch_id"] for b in of_plan]
    workers = load_plan(home, version).workers
    of_workers = pds.field("batch_id").isin(numbers or [-1]) & (pds.field("unit") == names.WHOLE_WORKER)
    rows = read_table(home.table(names.UNIT_LOADS), ["batch_id", "worker", "cpu_seconds"], of_workers)
    batch, worker, seconds = (rows.column(name).to_numpy() for name in rows.column_names)
    cpu_seconds = np.zeros((len(numbers), workers))
    np.add.at(cpu_seconds, (np.searchsorted(numbers, batch), worker), seconds)
    tuples = np.array([b["objects"] + b["requests"] for b in of_plan], np.int64)
    first_key = recent[0]["objects_after"] if recent else -1
    return MeasuredLoads(cpu_seconds, tuples, first_key)
