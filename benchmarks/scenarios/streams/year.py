"""Benchmark a small micro-batch and the status reports of a home whose ledgers hold a year of batches, one a minute.

Only the ledgers hold the year: the cost of many uncompacted files of objects, requests and matches, and of comparing
ids with stored ones during ingestion, is not measured.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.support.measured_homes import BenchHome
from benchmarks.support.targets import at_most
from pststream.base import names
from pststream.base.names import ROW_BITS
from pststream.base.progress import Progress, StepCounter, Steps
from pststream.base.utc_times import to_micros
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.synthetic_homes import START
from pststream.reports.commands.status import read_status
from pststream.reports.pages.overview_page import read_overview
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.deliveries import read_progress
from pststream.state.tables import TABLES
from pststream.tables.ledgers import Ledger
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (5_000, 1_000), "full": (200_000, 525_600)}
"""Subscriptions, and past batches, each of one file of objects."""

OBJECTS, INSERTIONS = 2_000, 400
BATCHES = 9
CHUNK = 20_000
SINK = "year"
SECONDS = [("index", 0.1), ("match", 0.5), ("retract", 0.01), ("save", 0.05)]
MAX_SLOWDOWN = 1.2
PAGE_SECONDS = 2.0
"""Greatest allowed ratio of a batch to one in a young home, and greatest seconds of the page's reads."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the median seconds of a batch, of reading the ledger and of the status reports, in both homes."""
    subscriptions, batches = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "batches": batches}
    steps = Steps(progress, 2)
    for age, past in (("young", 0), ("old", batches)):
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = BenchHome(f"{folder}/home", seed, progress)
            _write_past(bench, past, progress)
            chosen = replace(settings, cache_dir=f"{folder}/cache")
            bench.add_subscriptions(subscriptions, SubscriptionStyle(frequent_share=0.3))
            figures |= {f"{age}_{name}": round(value, 4) for name, value in _measured(bench, chosen).items()}
        steps.end(f"{age}: {figures[f'{age}_batch_seconds']:.2f} s per batch")
    figures["batch_old_over_young"] = round(figures["old_batch_seconds"] / figures["young_batch_seconds"], 3)
    targets = {
        "batch_old_over_young": at_most(figures["batch_old_over_young"], MAX_SLOWDOWN),
        "old_page_seconds": at_most(figures["old_page_seconds"], PAGE_SECONDS),
    }
    return {"figures": figures, "floor": {}, "targets": targets if scale == "full" else {}}


def _measured(bench: BenchHome, settings: Settings) -> dict[str, float]:
    def batch() -> None:
        match(bench.home, settings, one=True)

    seconds = []
    for number in range(BATCHES):
        if number:
            bench.add_subscriptions(INSERTIONS, SubscriptionStyle(frequent_share=0.3))
        bench.add_objects(OBJECTS)
        seconds.append(_seconds(batch))
    reads: dict[str, Callable[[], Any]] = {
        "ledger": lambda: Ledger(bench.home),
        "sink": lambda: read_progress(bench.home, SINK),
        "page": lambda: read_overview(bench.home.path),
        "status": lambda: read_status(bench.home),
    }
    durations = {
        f"{name}_seconds": float(np.median([_seconds(read) for _ in range(3)])) for name, read in reads.items()
    }
    return {"batch_seconds": float(np.median(seconds[1:]))} | durations


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _write_past(bench: BenchHome, batches: int, progress: Progress) -> None:
    """Write the ledgers of past batches, one per minute, compacted as by `maintain`."""
    workers = Settings().workers
    counter = StepCounter(progress, "writing the ledgers", "batch", batches)
    for first in range(1, batches + 1, CHUNK):
        number = np.arange(first, min(first + CHUNK, batches + 1))
        at = to_micros(START) + (number - batches - 1) * 60_000_000
        for name, columns in (
            (names.FILES, _files(number, at)),
            (names.BATCHES, _batches(number, at)),
            (names.UNIT_LOADS, _unit_loads(number, workers)),
            (names.DELIVERIES, _deliveries(number, at)),
        ):
            ledger_tables.append(bench.home, name, _table(name, columns))
        counter.add(len(number))
    for name in (names.FILES, names.BATCHES, names.UNIT_LOADS, names.DELIVERIES):
        ledger_tables.compact(bench.home, name, ledger_tables.MAX_FILE_BYTES)


def _files(number: np.ndarray, at: np.ndarray) -> dict[str, Any]:
    return {
        "file_seq": number, "ingest_id": number, "kind": "objects", "sha256": [f"{n:064x}" for n in number.tolist()],
        "path": [f"/landing/objects/{n:09}.parquet" for n in number.tolist()], "bytes": 100_000, "options": "{}",
        "status": "done", "rows": OBJECTS, "accepted": OBJECTS, "rejected": 0, "watermark": at - 60_000_000,
        "min_ts": at, "max_ts": at, "started_at": at,
    }  # fmt: skip


def _batches(number: np.ndarray, at: np.ndarray) -> dict[str, Any]:
    return {
        "batch_id": number, "status": "done", "plan_version": 1,
        "objects_after": np.where(number > 1, (number - 1 << ROW_BITS) + OBJECTS, 0),
        "objects_to": (number << ROW_BITS) + OBJECTS, "requests_after": 0, "requests_to": 0, "objects_version": number,
        "requests_version": 1, "objects": OBJECTS, "discarded": 0, "requests": 0, "matches": OBJECTS, "retractions": 0,
        "removals": 0, "seconds_by_step": [SECONDS] * len(number), "started_at": at,
        "finished_at": at + 1_000_000,
    }  # fmt: skip


def _unit_loads(number: np.ndarray, workers: int) -> dict[str, Any]:
    return {
        "batch_id": np.repeat(number, workers), "plan_version": 1, "worker": np.tile(np.arange(workers), len(number)),
        "unit": names.WHOLE_WORKER, "objects": OBJECTS // workers, "subscriptions": 1000, "candidates": 1000,
        "matches": 1000, "cpu_seconds": 0.1,
    }  # fmt: skip


def _deliveries(number: np.ndarray, at: np.ndarray) -> dict[str, Any]:
    return {
        "sink": SINK, "batch_id": number, "position": OBJECTS, "complete": True, "message_limit": 0, "limit_seconds": 1,
        "state": "ok", "delivered": OBJECTS, "refused": 0, "failures": 0, "written_at": at,
    }  # fmt: skip


def _table(name: str, columns: dict[str, Any]) -> pa.Table:
    """Build rows of a table from one array or one constant per column; missing columns are null."""
    rows = max(len(value) for value in columns.values() if isinstance(value, np.ndarray))
    schema = TABLES[name].schema

    def column(field: pa.Field) -> pa.Array:
        value = columns.get(field.name)
        if isinstance(value, list):
            return pa.array(value, field.type)
        if isinstance(value, np.ndarray):
            return pa.array(value).cast(field.type)
        return pa.repeat(pa.scalar(value, field.type), rows)

    return pa.Table.from_arrays([column(field) for field in schema], schema=schema)
