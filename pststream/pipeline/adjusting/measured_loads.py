"""The balance of the workers as the ledger of loads tells it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from pststream import names
from pststream.settings import Settings
from pststream.state import ledger, ledger_tables
from pststream.state.home import Home
from pststream.state.plans import load_plan


@dataclass(frozen=True)
class Balance:
    """Measured loads over the last batches of a plan.

    cpu_seconds: float64[batches, workers], of each worker in each batch; tuples: int64[batches], objects and requests
    first_key: the key after which the objects of the last batches begin, of any plan
    insertions, deletions: requests of those batches
    """

    cpu_seconds: np.ndarray
    tuples: np.ndarray
    first_key: int
    insertions: int
    deletions: int

    @property
    def batches(self) -> int:
        """How many they are."""
        return len(self.cpu_seconds)

    @property
    def typical(self) -> np.ndarray:
        """Seconds of each worker in all the batches, were its part of each that of its middle one: float64[workers].
        Batches count by their tuples, and not at all if no worker did anything in them. What comes once, as the
        building of segments after a migration, is not in it.
        """
        seconds = self.cpu_seconds.sum(axis=1)
        busy = seconds > 0.0
        if not busy.any():
            return np.zeros(self.cpu_seconds.shape[1])
        shares, weights = self.cpu_seconds[busy] / seconds[busy, None], np.maximum(self.tuples[busy], 1)
        order = np.argsort(shares, axis=0)
        middle = (np.cumsum(weights[order], axis=0) >= weights.sum() / 2).argmax(axis=0)
        found = np.sort(shares, axis=0)[middle, np.arange(shares.shape[1])]
        return found * (seconds.sum() / found.sum()) if found.any() else self.cpu_seconds.sum(axis=0)

    def violated(self, sigma: float) -> bool:
        """Whether the greatest load is over `sigma` times the least in both halves of them: noise moves nothing."""
        halves = np.array_split(self.cpu_seconds, 2) if self.batches > 1 else [self.cpu_seconds]
        return all(_imbalance(half.sum(axis=0)) > sigma for half in halves)

    @property
    def imbalance(self) -> float:
        """Greatest over least, of all the batches."""
        return _imbalance(self.cpu_seconds.sum(axis=0))


def out_of_balance(measured: Balance, settings: Settings) -> bool:
    """Whether load is to be moved: `sigma` is violated, and over enough batches to tell."""
    return measured.batches >= min(2, settings.balance_batches) and measured.violated(settings.sigma)


def _imbalance(seconds: np.ndarray) -> float:
    most = float(seconds.max(initial=0.0))
    return most / max(float(seconds.min()), most * 1e-9) if most > 0.0 else 1.0


def measured_balance(home: Home, version: int, batches: int) -> Balance:
    """From the ledger of loads, over the last `batches` under the plan."""
    last = ledger_tables.greatest(home, names.BATCHES, "batch_id")
    recent = [b for b in ledger.batches_between(home, last - batches - 1) if b["status"] == "done"][-batches:]
    done = [b for b in recent if b["plan_version"] == version]
    numbers = [b["batch_id"] for b in done]
    workers = load_plan(home, version).workers
    filters = [("batch_id", "in", numbers or [-1]), ("unit", "=", -1)]
    rows = ledger_tables.read(home, names.UNIT_LOADS, ["batch_id", "worker", "cpu_seconds"], filters)
    batch, worker, seconds = (rows.column(name).to_numpy() for name in rows.column_names)
    cpu_seconds = np.zeros((len(numbers), workers))
    np.add.at(cpu_seconds, (np.searchsorted(numbers, batch), worker), seconds)
    tuples = np.array([b["objects"] + b["requests"] for b in done], np.int64)
    first_key = recent[0]["objects_after"] if recent else -1
    return Balance(cpu_seconds, tuples, first_key, *_requests(home, recent))


def _requests(home: Home, batches: list[dict[str, Any]]) -> tuple[int, int]:
    """Insertions and deletions that these batches took, one after the other as they are."""
    requests = sum(batch["requests"] for batch in batches)
    if not requests:
        return 0, 0
    key = pds.field("request_key")
    taken = (key > batches[0]["requests_after"]) & (key <= batches[-1]["requests_to"])
    deletions = ledger_tables.count(home, names.REQUESTS, taken & (pds.field("op") == "delete"))
    return requests - deletions, deletions
