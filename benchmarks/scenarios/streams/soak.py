"""Benchmark hundreds of small micro-batches with upkeep between them: check that time, files and memory stay flat.

Subscriptions of `range`, `knn` and `topk` come and go. What a batch writes for answers is stated for each object, and
what is left of it after `maintain`: the rows that states are built from are dropped, the changes stay.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.support.measured_homes import BenchHome
from benchmarks.support.memory import resident_mb
from benchmarks.support.targets import at_most
from pststream.base import names
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.synthetic_homes import clause_lists
from pststream.pipeline.upkeep.maintain import maintain
from pststream.settings import Settings
from pststream.state.data_files import list_data_files
from pststream.state.home import LOG_RETENTION, Home
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.state.tables import TABLES
from pststream.tables.open_tables import open_table
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.generate_files import GREATEST_DISTANCE_M, MOST_K, STYLES, TOPK_K
from pststream.workloads.synthetic_arrays import synthetic_subscriptions

SIZES = {"small": (5_000, 20), "full": (200_000, 500)}
"""Live subscriptions, and batches."""

STANDING = {"small": 200, "full": 10_000}
"""Live subscriptions of `knn`, and of `topk`."""

OBJECTS, INSERTIONS, DELETIONS = 2_000, 400, 400
STANDING_INSERTIONS = 20
"""Insertions of each of these kinds, and deletions, in a batch."""

WINDOW_OBJECTS = 20_000
"""The window of `topk`: ten batches. Half of `knn` have one of as many milliseconds, the others none."""

LATENESS_SECONDS = 30
"""Objects are a millisecond apart, so subscriptions that ended this long ago are dropped after 15 batches."""

PARTS = 10
"""Number of parts of the run, each followed by upkeep."""

FLAT = 1.2
"""Greatest allowed ratio of the last fifth of the run to the middle fifth."""

GROWS = "answer_changes_mb"
"""The figure that grows with the run: changes stay as long as `keep` says, and a run is shorter than a day."""

SHORT_LOG_RETENTION = "interval 1 minutes"
"""Retention of Delta's logs; the default of an hour or a day is longer than the run."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure seconds per batch, memory, files and bytes in the middle fifth and in the last fifth of the run."""
    subscriptions, batches = SIZES[scale]
    chosen = replace(settings, lateness_seconds=LATENESS_SECONDS, retention_days=0)
    style = SubscriptionStyle(frequent_share=0.3)
    seconds, parts = [], []
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        chosen = replace(chosen, cache_dir=f"{folder}/cache")
        for name in TABLES:
            open_table(bench.home.table(name)).alter.set_table_properties({LOG_RETENTION: SHORT_LOG_RETENTION})
        bench.add_subscriptions(subscriptions, style)
        _add_standing(bench, STANDING[scale])
        bench.add_objects(OBJECTS)
        match(bench.home, chosen)
        steps = Steps(progress, PARTS, alike=True)
        for _ in range(PARTS):
            kept = sum(_answer_bytes(bench.home).values())
            for _ in range(batches // PARTS):
                bench.add_subscriptions(INSERTIONS, style, DELETIONS)
                _add_standing(bench, STANDING_INSERTIONS, delete=STANDING_INSERTIONS)
                bench.add_objects(OBJECTS)
                began = time.perf_counter()
                match(bench.home, chosen, one=True)
                seconds.append(time.perf_counter() - began)
            written = sum(_answer_bytes(bench.home).values()) - kept
            began = time.perf_counter()
            maintain(bench.home, chosen)
            parts.append(_sizes(bench.home) | {"upkeep_seconds": time.perf_counter() - began} | resident_mb())
            parts[-1]["answer_bytes_per_object"] = written / (batches // PARTS * OBJECTS)
            steps.end(f"{_median(seconds[-(batches // PARTS) :]):.2f} s per batch")
    figures: dict[str, Any] = {"subscriptions": subscriptions, "batches": batches}
    targets = {}
    middle, last = slice(PARTS * 2 // 5, PARTS * 3 // 5), slice(PARTS * 4 // 5, PARTS)
    by_part = np.array(seconds).reshape(PARTS, -1)
    measured = {"batch_seconds": [float(np.median(part)) for part in by_part]}
    measured |= {name: [part[name] for part in parts] for name in parts[0]}
    for name, values in measured.items():
        before, after = _median(values[middle]), _median(values[last])
        figures |= {f"{name}_middle": round(before, 3), f"{name}_last": round(after, 3)}
        if scale == "full" and name != GROWS:
            figures[f"{name}_last_over_middle"] = round(after / before, 3) if before else 1.0
            targets[f"{name}_last_over_middle"] = at_most(figures[f"{name}_last_over_middle"], FLAT)
    return {"figures": figures, "floor": {}, "targets": targets}


def _add_standing(bench: BenchHome, count: int, delete: int = 0) -> None:
    """Append insertions of `knn` and of `topk`, and deletions of the oldest subscriptions."""
    seed = bench.seed * 1000 + bench.commits
    for kind, style in STYLES.items():
        if kind == "frequent_terms":  # the objects of the run have no text
            continue
        drawn = synthetic_subscriptions(count, seed, bench.source, style, regions_seed=bench.seed)
        west, south, east, north = drawn.boxes.T
        columns = {
            "kind": pa.repeat(kind, count),
            "clauses": clause_lists(drawn),
            "lon": pa.array((west + east) / 2),
            "lat": pa.array((south + north) / 2),
        }
        number = np.arange(count)
        if kind == "topk":
            columns |= {
                "k": pa.repeat(TOPK_K, count),
                "alpha": pa.array((number % 11) / 10),
                "distance_scale_m": pa.repeat(GREATEST_DISTANCE_M, count),
                "window_objects": pa.repeat(WINDOW_OBJECTS, count),
            }
        else:
            window = pa.array(np.full(count, WINDOW_OBJECTS * 1000), mask=number % 2 == 0)
            columns |= {"k": pa.array(1 + number % MOST_K), "window_us": window}
        bench.add_insertions(count, columns, delete)


def _answer_bytes(home: Home) -> dict[str, int]:
    """Return the bytes of `answer_log` by part."""
    sizes = {"change": 0, "state": 0, "window": 0}
    for file in list_data_files(home, names.ANSWER_LOG):
        sizes[str(file.partition["part"])] += file.bytes
    return sizes


def _sizes(home: Home) -> dict[str, float]:
    """Count the files of the index and of the ledgers, unreferenced files on disk, and the bytes of Delta's logs and of
    answers.
    """
    tables = list(Path(home.path, "tables").iterdir())
    named = sum(len(list_data_files(home, table.name)) for table in tables)
    stored = sum(1 for table in tables for file in table.rglob("*.parquet") if names.DELTA_LOG not in file.parts)
    logs = sum(file.stat().st_size for table in tables for file in (table / names.DELTA_LOG).iterdir())
    answers = _answer_bytes(home)
    return {
        "answer_changes_mb": answers["change"] / 1e6,
        "answer_state_mb": (answers["state"] + answers["window"]) / 1e6,
        "answer_snapshot_mb": sum(file.bytes for file in list_data_files(home, names.ANSWERS)) / 1e6,
        "index_files": len(index_files(home, current_version(home))),
        "control_files": sum(
            len(list_data_files(home, name)) for name in (names.FILES, names.BATCHES, names.UNIT_LOADS)
        ),
        "unnamed_files": stored - named,
        "log_mb": logs / 1e6,
    }


def _median(values: list[float]) -> float:
    return float(np.median(values))
