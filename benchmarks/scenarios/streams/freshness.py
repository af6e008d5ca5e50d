"""Benchmark the delay from the landing of an object file to its readable matches under `pststream run --watch`.

The watcher is a separate process, as a user starts it; small files of objects land at an even rate. The engines are
measured one after the other, each with a watcher of its own. A file is matched when the batch with its last row is done
in the ledger, which is after its matches are committed.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.engines import ENGINES, side_by_side
from benchmarks.support.landing import SECONDS, fill_home, land, write_parts
from benchmarks.support.paper_workloads import OBJECTS_ALONE, OBJECTS_OF_FILES, describe_workload
from benchmarks.support.targets import at_most
from benchmarks.support.watchers import running_watcher, wait_for_matches
from pststream.base.errors import PstError
from pststream.base.progress import Progress, Steps
from pststream.engine.spark_session import stop_spark
from pststream.reports.pages import airflow_views
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.ledgers import Ledger, read_batches
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (20_000, 20), "full": (5_000_000, 240)}
"""Subscriptions, and files that land for each engine."""

OBJECTS = 500
"""Objects of a file: 1,000 objects/s."""

STYLE = SubscriptionStyle(frequent_share=0.12)
WARM_FILES = 10
"""Number of files at the start of each engine that are a warm-up and not counted."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the seconds from landing to match over all files, and the seconds to render the status page."""
    subscriptions, files = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as name:
        folder, home = Path(name), Home(f"{name}/home")
        steps = Steps(progress, 1 + len(ENGINES))
        fill_home(home, settings, folder, subscriptions, seed, STYLE, progress)
        stop_spark()
        parts = write_parts(folder, files * len(ENGINES), OBJECTS, seed)
        (folder / "landing" / "objects").mkdir(parents=True)
        delays = {}
        steps.end(f"{subscriptions:,} subscriptions written, ingested and indexed")
        for number, engine in enumerate(ENGINES):
            of_engine = parts[number * files : (number + 1) * files]
            delays[engine] = measure_delays(home, replace(settings, engine=engine), folder / "landing", of_engine)
            steps.end(f"files landed for the watcher with engine {engine}: p99 {delays[engine]['p99_seconds']} s")
        page_seconds = _page_seconds(home)
    figures = {
        "subscriptions": subscriptions,
        "workload": describe_workload(STYLE, OBJECTS_ALONE, OBJECTS_OF_FILES),
        "objects_per_second": round(OBJECTS / SECONDS),
        "files": files - WARM_FILES,
        **side_by_side(delays),
        "page_seconds": round(page_seconds, 3),
    }
    targets = {}
    if scale == "full":
        targets = {"p99_seconds": at_most(figures["p99_seconds"], 2.0), "page_seconds": at_most(page_seconds, 2.0)}
    return {"figures": figures, "floor": {}, "targets": targets}


def measure_delays(home: Home, settings: Settings, landing: Path, parts: list[Path]) -> dict[str, float]:
    """Let the files land while a watcher runs; return the figures of their delays."""
    before = Ledger(home).next_batch_id - 1
    with running_watcher(home, settings, landing) as watcher:
        waits = wait_for_matches(watcher, home, land(parts, landing / "objects"))[WARM_FILES:]
    done = read_batches(home, before)
    return {
        "batches": len(done),
        "matches_per_object": round(sum(b["matches"] for b in done) / max(sum(b["objects"] for b in done), 1), 2),
        "median_seconds": round(float(np.median(waits)), 3),
        "p99_seconds": round(float(np.quantile(waits, 0.99)), 3),
        "max_seconds": round(float(waits.max()), 3),
    }


def _page_seconds(home: Home) -> float:
    """Measure the seconds to render the page in Airflow: the greatest of a few."""
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        page = airflow_views.overview_page(home.path)
        seconds.append(time.perf_counter() - began)
        if page.status != 200:
            raise PstError(f"the page has status {page.status}", "run `pststream report` for the cause")
    return max(seconds)
