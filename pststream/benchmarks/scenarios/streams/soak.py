"""Benchmark hundreds of small micro-batches with upkeep between them: check that time, files and memory stay flat."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pststream import names
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.memory import resident_mb
from pststream.benchmarks.support.steps import Steps
from pststream.benchmarks.support.targets import at_most
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.open_tables import open_table
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.upkeep.maintain import maintain
from pststream.progress import Progress
from pststream.settings import Settings
from pststream.state.data_files import list_data_files
from pststream.state.home import LOG_RETENTION, Home
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.state.tables import TABLES

SIZES = {"small": (5_000, 20), "full": (200_000, 500)}
"""Live subscriptions, and batches."""

OBJECTS, INSERTIONS, DELETIONS = 2_000, 400, 400
LATENESS_SECONDS = 30
"""Objects are a millisecond apart, so subscriptions that ended this long ago are dropped after 15 batches."""

PARTS = 10
"""Number of parts of the run, each followed by upkeep."""

FLAT = 1.2
"""Greatest allowed ratio of the last fifth of the run to the middle fifth."""

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
        bench.add_objects(OBJECTS)
        match(bench.home, chosen)
        steps = Steps(progress, PARTS, alike=True)
        for _ in range(PARTS):
            for _ in range(batches // PARTS):
                bench.add_subscriptions(INSERTIONS, style, DELETIONS)
                bench.add_objects(OBJECTS)
                began = time.perf_counter()
                match(bench.home, chosen, one=True)
                seconds.append(time.perf_counter() - began)
            began = time.perf_counter()
            maintain(bench.home, chosen)
            parts.append(_sizes(bench.home) | {"upkeep_seconds": time.perf_counter() - began} | resident_mb())
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
        if scale == "full":
            figures[f"{name}_last_over_middle"] = round(after / before, 3) if before else 1.0
            targets[f"{name}_last_over_middle"] = at_most(figures[f"{name}_last_over_middle"], FLAT)
    return {"figures": figures, "floor": {}, "targets": targets}


def _sizes(home: Home) -> dict[str, float]:
    """Count the files of the index and of the ledgers, unreferenced files on disk, and the bytes of Delta's logs."""
    tables = list(Path(home.path, "tables").iterdir())
    named = sum(len(list_data_files(home, table.name)) for table in tables)
    stored = sum(1 for table in tables for file in table.rglob("*.parquet") if "_delta_log" not in file.parts)
    logs = sum(file.stat().st_size for table in tables for file in (table / "_delta_log").iterdir())
    return {
        "index_files": len(index_files(home, current_version(home))),
        "control_files": sum(
            len(list_data_files(home, name)) for name in (names.FILES, names.BATCHES, names.UNIT_LOADS)
        ),
        "unnamed_files": stored - named,
        "log_mb": logs / 1e6,
    }


def _median(values: list[float]) -> float:
    return float(np.median(values))
