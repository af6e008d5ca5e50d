"""Choose the batches to replay, by versions of the table `matches` or the last ones, and add up their figures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import sum_column
from pststream.base.errors import RetryableError, UsageError
from pststream.plans.imbalance import finite_imbalance, imbalance_of
from pststream.state import erasures, ledger_tables
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value, read_table, table_version
from pststream.tables.ledgers import read_batches
from pststream.tables.open_tables import open_table


@dataclass(frozen=True)
class ChosenBatches:
    """Rows of `batches`: the batches to replay, all done and without gaps, and the batch before them, if any."""

    batches: list[dict[str, Any]]
    before: dict[str, Any] | None

    @property
    def first(self) -> dict[str, Any]:
        """The first batch to replay."""
        return self.batches[0]

    @property
    def last(self) -> dict[str, Any]:
        """The last batch to replay."""
        return self.batches[-1]


def batches_between(home: Home, after: int, up_to: int) -> ChosenBatches:
    """Return the batches that were committed to `matches` after Delta version `after` and up to version `up_to`.

    The log of `matches` records the number of each batch as a transaction id. Raises UsageError if there is no such
    batch, or if the log does not have a version, or no longer; RetryableError if the last batch is unfinished.
    """
    newest = table_version(home.table(names.MATCHES))
    oldest = ledger_tables.oldest_version(home, names.MATCHES)
    for version in (after, up_to):
        if not oldest <= version <= newest:
            gone = "is no longer in the log" if version < oldest else "does not exist"
            raise UsageError(
                f"version {version} of matches {gone}",
                f"versions from {oldest} to {newest} can be given; docs/operation.md says how long they are kept",
            )
    if after >= up_to:
        raise UsageError(
            f"--from-version {after} is not before --to-version {up_to}",
            "batches after the first version and up to the second are replayed",
        )
    first, last = _last_batch(home, after) + 1, _last_batch(home, up_to)
    if last < first:
        raise UsageError(
            f"no batch was committed to matches after version {after} and up to version {up_to}",
            f"versions from {oldest} to {newest} can be given",
        )
    return _read(home, first, last)


def last_batches(home: Home, count: int) -> ChosenBatches:
    """Return the last `count` batches that are done, or all of them if there are fewer; UsageError if there is none."""
    last = greatest_value(home.table(names.BATCHES), "batch_id")
    if last and read_batches(home, last - 1)[-1]["status"] != "done":
        last -= 1
    if last == 0:
        raise UsageError(f"home {home.path} has no finished batch", "run: pststream match")
    return _read(home, max(1, last - count + 1), last)


def _last_batch(home: Home, version: int) -> int:
    """Return the number of the last batch that was committed at a version of `matches`; 0 if there was none."""
    return int(open_table(home.table(names.MATCHES), version).transaction_version("match") or 0)


def refuse_removed_matches(home: Home, first: int, last: int) -> None:
    """Raise UsageError if `keep` has removed matches of the batches since, which a replay then finds to be missing."""
    removals = erasures.removed_rows(home)
    of_keep = removals.filter(pc.equal(removals.column("cause"), erasures.KEEP))
    removed = erasures.count_removed_pairs(of_keep).batch_ids
    gone = removed[(removed >= first) & (removed <= last)]
    if not len(gone):
        return
    newest = greatest_value(home.table(names.BATCHES), "batch_id")
    left = newest - int(removed.max())
    hint = f"replay later batches: at most --last {left}" if left else "there is no later batch; run: pststream match"
    raise UsageError(
        f"the matches differ, as the setting `keep` has removed some of {len(gone)} of the batches {first} to {last},"
        f" the last one of them batch {gone[-1]}, whose objects are still stored",
        f"{hint}. docs/operation.md says how long rows are kept",
    )


def _read(home: Home, first: int, last: int) -> ChosenBatches:
    rows: list[dict[str, Any]] = [dict(row) for row in read_batches(home, first - 2, last)]
    if rows[-1]["status"] != "done":
        raise RetryableError(f"batch {last} is unfinished", "run: pststream match, then replay again")
    before = rows.pop(0) if rows[0]["batch_id"] < first else None
    return ChosenBatches(rows, before)


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

    workers: the number of workers of the plan, which may retire one of more; those that had nothing to do have zeros

    Loads are CPU seconds of matching and of building segments. `duplicates`: objects sent beyond the first worker of
    each object that was not discarded. `subscriptions_stored`: pieces in the indexes of the workers, as of the last
    batch in which each had objects.
    """
    rows, batches = loads.workers, loads.batches
    workers = max(workers, 1 + int(rows.column("worker").to_numpy().max(initial=-1)))
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
