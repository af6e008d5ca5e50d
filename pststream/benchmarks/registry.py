"""The benchmarks by name. Each returns figures, floors (the same job without the work) and targets."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pststream.benchmarks.scenarios import (
    balance,
    calibrate,
    drift,
    end_to_end,
    freshness,
    growth,
    kernel,
    mapping,
    migration,
    peers,
    planners,
    planners_large,
    planning,
    scalability,
    soak,
    steady_state,
    year,
)
from pststream.progress import Progress
from pststream.settings import Settings


@dataclass(frozen=True)
class Benchmark:
    """A scenario; `run(scale, seed, settings, progress)` returns {"figures", "floor", "targets"}."""

    meaning: str
    run: Callable[[str, int, Settings, Progress], dict[str, Any]]


BENCHMARKS = {
    "balance-cost": Benchmark("what GR, DP, SI and RA move of the same cells", balance.run_cost),
    "balance-mapping": Benchmark("what moves by each mapping of a new plan's parts to workers", mapping.run),
    "balance-select": Benchmark("time to select the cells to move, by their number", balance.run_select),
    "calibrate": Benchmark("the constants of Definition 1 on this machine, and how well they tell", calibrate.run),
    "kernel": Benchmark("objects/s of the matching kernel on one core, arrays in, arrays out", kernel.run),
    "drift": Benchmark("throughput while tastes drift, with load adjustment and without", drift.run),
    "freshness": Benchmark("seconds from a file's landing to its matches, with `run --watch`", freshness.run),
    "migration": Benchmark("time to carry a migration out, and the batches around it", migration.run),
    "end-to-end": Benchmark("Delta in, Delta out on Spark, beside the same job without the kernel", end_to_end.run),
    "planners": Benchmark("all planners on workloads like Q1, Q2, Q3, measured by the real job", planners.run),
    "planners-large": Benchmark("planners that divide space, at 5,000,000 subscriptions", planners_large.run),
    "planning": Benchmark("seconds and memory of making plans", planning.run),
    "peers": Benchmark("beside Lucene Monitor, SedonaDB, PostgreSQL and a Spark join, matches held equal", peers.run),
    "scalability": Benchmark("throughput by the number of workers, of hybrid and the kd-tree", scalability.run),
    "soak": Benchmark("hundreds of small batches with upkeep: what stays flat, and what grows", soak.run),
    "steady-state": Benchmark("many small batches with insertions and deletions in a warm session", steady_state.run),
    "year": Benchmark("a small batch, and the page, in a home that has run for a year", year.run),
    "growth": Benchmark("time an object and bytes a subscription as the subscriptions grow", growth.run),
}


def run_benchmark(name: str, scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Run one.

    Returns {"name", "scale", "seed", "machine": as `machine` tells, "seconds", "figures", "floor": figures of the same
    job without its work, "targets": {figure: as benchmarks.targets makes them}}.
    """
    began = time.perf_counter()
    result = BENCHMARKS[name].run(scale, seed, settings, progress)
    return {
        "name": name,
        "scale": scale,
        "seed": seed,
        "machine": machine(),
        "seconds": round(time.perf_counter() - began, 1),
        **result,
    }


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9, 1),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "random_read_ns": random_read_ns(),
    }


def random_read_ns() -> float:
    """Nanoseconds of a read from a random place of 256 MiB: what matching waits for, and what virtual machines differ
    in most, from day to day too.
    """
    values = np.arange(1 << 25)
    places = np.random.default_rng(0).integers(0, len(values), 1 << 22)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        values.take(places)
        times.append(time.perf_counter() - began)
    return round(min(times) / len(places) * 1e9, 2)
