"""List the benchmarks by name, run one of them for `pststream bench run`, and describe the machine.

Each benchmark returns figures, figures of baseline jobs (`floor`: the same job without the work) and targets.
"""

import os
import platform
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scenarios.answers import frequent_terms, knn, questions, standing_memory, topk, topk_planners
from benchmarks.scenarios.plans import (
    adjust,
    balance,
    balance_methods,
    calibration,
    dkm_imbalance,
    drift,
    mapping,
    migration,
    paper_job,
    paper_model,
    phase_one,
    placing,
    planner_options,
    planner_sweeps,
    planners,
    planners_large,
    planning,
    scalability,
    standing_planners,
)
from benchmarks.scenarios.streams import (
    driver,
    end_to_end,
    expressions,
    freshness,
    growth,
    hostile,
    ingest,
    kernel,
    peers,
    planner_latency,
    soak,
    steady_state,
    year,
)
from benchmarks.support.choice import Choice
from benchmarks.support.measured_homes import read_objects
from pststream.base.errors import UsageError
from pststream.base.progress import Progress
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import KINDS


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    meaning       what it measures
    run           `run(scale, seed, settings, progress)` returns {"figures", "floor", "targets"}; with a Choice as its
                  last argument if the user may choose workloads or objects
    workloads     names of the workloads at a scale, of which the user may choose some; None: there are none
    any_objects   whether the user may choose another source of objects
    """

    meaning: str
    run: Callable[..., dict[str, Any]]
    workloads: Callable[[str], Collection[str]] | None = None
    any_objects: bool = False


BENCHMARKS = {
    "adjust": Benchmark("throughput after a sudden imbalance, by balancer, from the same start", adjust.run),
    "balance-cost": Benchmark("subscriptions that GR, DP, SI and RA move from the same cells", balance.run_cost),
    "balance-mapping": Benchmark("bytes moved by each mapping of a new plan's parts to workers", mapping.run),
    **{
        f"balance-methods-{millions}m": Benchmark(
            f"bytes, seconds and delays of migrations by GR, DP, SI and RA, {millions},000,000 subscriptions",
            partial(balance_methods.run, millions),
        )
        for millions in (1, 5, 10)
    },
    "balance-select": Benchmark("time to select the cells to move, by their number", balance.run_select),
    "calibrate": Benchmark("the cost model's constants on this machine, and how well they predict", calibration.run),
    "hostile": Benchmark("a day of files with hostile ones between them: lag, memory, lost rows", hostile.run),
    "ingest": Benchmark("rows/s of `ingest` by format, and growth with the rows of a file", ingest.run),
    "expressions": Benchmark("batches with phrases and exclusions, or with Han texts, beside twins", expressions.run),
    "kernel": Benchmark("objects/s of the matching kernel on one core, arrays in, arrays out", kernel.run),
    "dkm-imbalance": Benchmark(
        "how evenly the planners of DkM-SKS load 20 workers, by the number of subscriptions", dkm_imbalance.run
    ),
    "drift": Benchmark(
        "throughput while the workload drifts, with load adjustment and without", drift.run, any_objects=True
    ),
    "driver": Benchmark(
        "what the driver does for a batch with many workers, files and tasks: seconds, bytes", driver.run
    ),
    "frequent-terms": Benchmark(
        "seconds of a tick of standing frequent terms, by objects, batch and way", frequent_terms.run
    ),
    "freshness": Benchmark("seconds from a file's landing to its matches, with `run --watch`", freshness.run),
    "knn": Benchmark("batches of standing `knn` queries: kernel and fold, Delta to Delta, by size and k", knn.run),
    "topk": Benchmark("messages/s of standing `topk` queries, re-evaluations, prunings, bytes", topk.run),
    "topk-planners": Benchmark("partitioners of `topk`: load, replication, messages sent", topk_planners.run),
    "migration": Benchmark("time of a migration, and of the batches before and after it", migration.run),
    "end-to-end": Benchmark("Delta in, Delta out, and the same job without the search for pairs", end_to_end.run),
    **{
        name: Benchmark(
            f"PS2Stream's planners on its workloads{where}, by the real job: throughput, bytes",
            partial(paper_job.run, country),
            lambda _: KINDS,
            any_objects=True,
        )
        for name, country, where in (("paper-job", "us", ""), ("paper-job-uk", "uk", " in Britain"))
    },
    "paper-model": Benchmark("all planners on Q1, Q2, Q3 by Definition 1 alone, over several seeds", paper_model.run),
    "phase-one": Benchmark("how often phase I of the adjustment acts when Q1 changes to Q2", phase_one.run),
    "placing": Benchmark("CPU seconds to place the subscriptions of a batch, by those placed before", placing.run),
    "planner-latency": Benchmark("seconds from landing to match, by planner", planner_latency.run),
    "planner-options": Benchmark("loads by Definition 1, by each option of the planners", planner_options.run),
    "planner-sweeps": Benchmark(
        "planners by what their papers vary: workers, regions, keywords, cells, leaves, subscriptions",
        planner_sweeps.run,
        lambda _: planner_sweeps.SWEEPS,
    ),
    "planners": Benchmark(
        "all planners on workloads like Q1, Q2, Q3, measured by the real job",
        planners.run,
        lambda _: planners.WORKLOADS,
        any_objects=True,
    ),
    "planners-large": Benchmark(
        "planners that divide space, and `auto`, at 5,000,000 and 10,000,000 subscriptions",
        planners_large.run,
        planners_large.list_workloads,
        any_objects=True,
    ),
    "planners-standing": Benchmark(
        "planners of DkM-SKS and all others on standing `knn` and a mix of kinds", standing_planners.run
    ),
    "planning": Benchmark("seconds and memory to make a plan, by planner", planning.run),
    "peers": Benchmark("objects/s of Lucene Monitor, SedonaDB, PostgreSQL and a Spark join, equal matches", peers.run),
    "questions": Benchmark("ms of questions about stored objects, seconds of `ask`, other systems", questions.run),
    "scalability": Benchmark(
        "throughput by the number of workers, of hybrid, kd-tree and metric",
        scalability.run,
        lambda _: scalability.WORKLOADS,
        any_objects=True,
    ),
    "soak": Benchmark("growth of time, files, memory and logs over hundreds of batches with upkeep", soak.run),
    "standing-memory": Benchmark(
        "memory of Spark's Python workers with standing `knn` and `topk`, by subscriptions", standing_memory.run
    ),
    "steady-state": Benchmark("many small batches with insertions and deletions in a warm session", steady_state.run),
    "year": Benchmark("a small batch, and the status page, in a home that has run for a year", year.run),
    "growth": Benchmark("time per object and bytes per subscription as subscriptions grow", growth.run),
}


def run_benchmark(
    name: str,
    scale: str,
    seed: int,
    settings: Settings,
    progress: Progress,
    *,
    workloads: Sequence[str] = (),
    objects: str | None = None,
) -> dict[str, Any]:
    """Run one benchmark.

    workloads  those to run; empty: all
    objects    a file of objects to use in place of synthetic ones; None: synthetic ones

    Returns {"name", "scale", "seed", "options": {option: text} of those that are given, "machine": see `machine`,
    "seconds", "figures", "floor": figures of the baseline jobs, "targets": {figure: see support/targets.py}}. Raises
    UsageError if the benchmark has no such workload, or has synthetic objects alone; InputFileError for a file that
    cannot be read.
    """
    chosen = _choose(name, scale, workloads, objects)
    began = time.perf_counter()
    simulated = replace(settings, max_ahead_seconds=0)  # the data has times of its own
    result = BENCHMARKS[name].run(scale, seed, simulated, progress, *chosen)
    options = {"workloads": ",".join(workloads)} if workloads else {}
    if objects is not None:
        options |= {"objects": Path(objects).name, "sha256": sha256(Path(objects).read_bytes()).hexdigest()}
    return {
        "name": name,
        "scale": scale,
        "seed": seed,
        "options": options,
        "machine": machine(),
        "seconds": round(time.perf_counter() - began, 1),
        **result,
    }


def _choose(name: str, scale: str, workloads: Sequence[str], objects: str | None) -> tuple[Choice, ...]:
    """Return the last argument of a benchmark, if the user may choose, for the given options."""
    benchmark = BENCHMARKS[name]
    there = benchmark.workloads(scale) if benchmark.workloads else ()
    unknown = sorted(set(workloads) - set(there))
    if unknown:
        hint = "one or more of: " + ", ".join(there) if there else "leave --workloads out"
        shown = ", ".join(workload or "''" for workload in unknown)
        raise UsageError(f"benchmark {name} has no workload {shown}", hint)
    if objects is not None and not benchmark.any_objects:
        with_objects = ", ".join(other for other, one in BENCHMARKS.items() if one.any_objects)
        raise UsageError(f"benchmark {name} has objects of its own", f"--objects is for: {with_objects}")
    choice = Choice(tuple(workloads), None if objects is None else read_objects(objects))
    return (choice,) if there or benchmark.any_objects else ()


def machine() -> dict[str, Any]:
    """Describe this machine and its load."""
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
    """Return the nanoseconds of a read from a random address in 256 MiB.

    Matching waits mostly for such reads, and virtual machines differ most in them, even from day to day.
    """
    values = np.arange(1 << 25)
    places = np.random.default_rng(0).integers(0, len(values), 1 << 22)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        values.take(places)
        times.append(time.perf_counter() - began)
    return round(min(times) / len(places) * 1e9, 2)
