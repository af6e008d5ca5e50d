"""Add up the recorded figures of some batches: objects sent, loads of the workers, subscriptions stored."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import read_table
from pststream.domain.arrow_columns import sum_column
from pststream.domain.imbalance import finite_imbalance, imbalance_of
from pststream.ledgers.log_end import read_batches
from pststream.state.home import Home

COUNTS = ("objects", "discarded", "requests", "matches", "retractions")
LOADS = ("batch_id", "plan_version", "worker", "objects", "subscriptions", "candidates", "matches", "cpu_seconds")


@dataclass(frozen=True)
class BatchLoads:
    """Some batches of a home: their rows of `batches`, and a row of LOADS for each worker and batch."""

    batches: list[dict[str, Any]]
    workers: pa.Table


def read_loads(home: Home, first: int, last: int) -> BatchLoads:
    """Read what the batches `first` to `last` recorded."""
    within = (
        (pds.field("batch_id") >= first) & (pds.field("batch_id") <= last) & (pds.field("unit") == names.WHOLE_WORKER)
    )
    workers = read_table(home.table(names.UNIT_LOADS), list(LOADS), within)
    rows = [dict(row) for row in read_batches(home, first - 1, last)]
    return BatchLoads(rows, workers.sort_by([("batch_id", "ascending"), ("worker", "ascending")]))


def add_up(loads: BatchLoads, workers: int) -> dict[str, Any]:
    """Return the figures of the batches together, what `pststream replay --json` prints of each side.

    workers: the number of workers of the greatest plan; workers that had nothing to do have zeros

    Loads are CPU seconds of matching and of building segments. `duplicates`: objects sent beyond the first worker of
    each object that was not discarded. `subscriptions_stored`: pieces in the indexes of the workers, as of the last
    batch in which each had objects.
    """
    rows, batches = loads.workers, loads.batches
    counts = {name: sum(batch[name] for batch in batches) for name in COUNTS}
    seconds = _by_worker(rows, "cpu_seconds", workers)
    sent = sum_column(rows, "objects")
    kept = counts["objects"] - counts["discarded"]
    most, tuples = float(seconds.max(initial=0.0)), counts["objects"] + counts["requests"]
    stored = np.zeros(workers, np.int64)
    stored[rows.column("worker").to_numpy()] = rows.column("subscriptions").to_numpy()  # the last batch of each counts
    return {
        "plan_versions": sorted({int(batch["plan_version"]) for batch in batches}),
        **counts,
        "objects_sent": sent,
        "duplicates": max(sent - kept, 0),
        "copies": round(sent / kept, 3) if kept else 0.0,
        "candidates": sum_column(rows, "candidates"),
        "subscriptions_stored": int(stored.sum()),
        "throughput": round(tuples / most) if most else 0,
        "load_total": round(float(seconds.sum()), 4),
        "max_seconds": round(most, 4),
        "imbalance": finite_imbalance(imbalance_of(seconds), 3),
        "dispatch_seconds": round(sum(dict(batch["seconds_by_step"]).get("dispatch_cpu", 0.0) for batch in batches), 3),
        "worker_seconds": [round(float(value), 4) for value in seconds],
        "worker_objects": _by_worker(rows, "objects", workers).astype(np.int64).tolist(),
        "worker_candidates": _by_worker(rows, "candidates", workers).astype(np.int64).tolist(),
        "worker_subscriptions": stored.tolist(),
    }


def _by_worker(rows: pa.Table, name: str, workers: int) -> np.ndarray:
    values = rows.column(name).to_numpy().astype(np.float64)
    return np.bincount(rows.column("worker").to_numpy(), values, minlength=workers)
