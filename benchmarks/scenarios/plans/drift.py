"""Benchmark throughput with and without load adjustment while a tenth of the regions switches (Q3)."""

import tempfile
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from benchmarks.support.choice import DEFAULTS, Choice
from benchmarks.support.measured_homes import BenchHome, CityObjects
from benchmarks.support.paper_workloads import FIVE_A_REQUEST, describe_workload
from benchmarks.support.targets import at_least, at_most
from pststream.base import names
from pststream.base.errors import PstError
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.replan.balance import balance
from pststream.pipeline.upkeep.maintain import maintain
from pststream.planning.balancing.local_adjustment import PHASE_ONE
from pststream.settings import Settings
from pststream.tables.delta_tables import read_table
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (20_000, 2), "full": (250_000, 6)}
"""Live subscriptions, and intervals."""

PARTS = 10
"""Batches of an interval, which replaces all subscriptions and adds ten objects for each: five a request, as in the
paper.
"""

STYLE = SubscriptionStyle("q3")
LATENESS_SECONDS = 600


def run(scale: str, seed: int, settings: Settings, progress: Progress, choice: Choice = DEFAULTS) -> dict[str, Any]:
    """Measure throughput (tuples over the CPU seconds of the slowest worker) and imbalance with and without adjustment.

    `gain_if_even` is the gain if all workers always had equal loads. The seconds of a worker are summed over each
    interval: the seconds of a batch are so few that two runs of the same batch differ by up to a half, which no plan
    can change. `by_batch` takes the slowest worker of each batch instead. After each interval the index is maintained;
    in the run `adjusted`, load is adjusted before that.

    Source: PS2Stream, section VI-D. Departures: the paper has intervals of 10 million queries, and does not say when
    load is adjusted.
    """
    chosen = replace(settings, planner="hybrid", balance_batches=PARTS, lateness_seconds=LATENESS_SECONDS)
    source = choice.objects or CityObjects()
    figures: dict[str, Any] = {"workload": describe_workload(STYLE, FIVE_A_REQUEST, source.description)}
    runs = {}
    steps = Steps(progress, 2 * SIZES[scale][1], alike=True)
    for name in ("fixed", "adjusted"):
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = BenchHome(f"{folder}/home", seed, progress, source)
            runs[name] = _run_intervals(
                bench, replace(chosen, cache_dir=f"{folder}/cache"), scale, name == "adjusted", steps
            )
        figures |= {f"{name}_{figure}": value for figure, value in runs[name].items()}
    if runs["fixed"]["matches"] != runs["adjusted"]["matches"]:
        raise PstError(f"adjustment changed the matches: {runs}", "please report this bug")
    gain = runs["adjusted"]["throughput"] / runs["fixed"]["throughput"] - 1
    figures["gain"] = round(gain, 4)
    figures["gain_by_batch"] = round(
        runs["adjusted"]["throughput_by_batch"] / runs["fixed"]["throughput_by_batch"] - 1, 4
    )
    targets = {}
    if scale == "full":
        over, one = figures["adjusted_intervals_over_sigma"], round(1 / SIZES[scale][1], 3)
        targets = {"gain": at_least(gain, 0.26), "adjusted_intervals_over_sigma": at_most(over, one)}
    return {"figures": figures, "floor": {}, "targets": targets}


def _run_intervals(bench: BenchHome, settings: Settings, scale: str, adjust: bool, steps: Steps) -> dict[str, Any]:
    """Match the batches of all intervals; return figures of the whole run."""
    subscriptions, intervals = SIZES[scale]
    # The first batch is like the later ones, which insert and delete a part of the subscriptions, so the plan is too.
    bench.add_subscriptions(subscriptions, STYLE)
    bench.add_objects(subscriptions)
    bench.add_subscriptions(subscriptions // PARTS, STYLE, delete=subscriptions // PARTS)
    match(bench.home, settings, max_objects=1 << 40, one=True)
    loads: list[np.ndarray] = []
    seconds: list[float] = []
    tuples, matches, moved = 0, 0, 0
    moves: list[dict[str, Any]] = []
    for interval in range(1, intervals + 1):
        for _ in range(PARTS):
            renewed = subscriptions // PARTS
            bench.add_subscriptions(renewed, STYLE, delete=renewed, interval=interval)
            bench.add_objects(subscriptions)
            (batch,) = match(bench.home, settings, max_objects=1 << 40, one=True)["batches"]
            loads.append(_loads(bench, batch["batch_id"]))
            tuples += batch["objects"] + batch["requests"]
            matches += batch["matches"]
        if adjust:
            done = balance(bench.home, settings, "local")
            moved += done["moved_subscriptions"]
            moves += done["moves"]
            seconds.append(done["seconds"])
        maintain(bench.home, settings)
        ratios = ", ".join(f"{load.max() / load.min():.2f}" for load in loads[-PARTS:])
        steps.end(f"interval {interval}: greatest load over least {ratios}; {moved} subscriptions moved so far")
    by_batch = np.array(loads)
    by_interval = by_batch.reshape(intervals, PARTS, -1).sum(axis=1)
    slowest = float(by_interval.max(axis=1).sum())
    imbalances = by_interval.max(axis=1) / by_interval.min(axis=1)
    return {
        "throughput": round(tuples / slowest),
        "throughput_by_batch": round(tuples / float(by_batch.max(axis=1).sum())),
        "load_total": round(float(by_batch.sum()), 2),
        "gain_if_even": round(slowest / float(by_interval.mean(axis=1).sum()) - 1, 4),
        "imbalance_median": round(float(np.median(imbalances)), 3),
        "imbalance_max": round(float(imbalances.max()), 3),
        "intervals_over_sigma": round(float((imbalances > settings.sigma).mean()), 3),
        "matches": matches,
        "moved_subscriptions": moved,
        **_count_moves(moves),
        "adjustment_seconds_median": round(float(np.median(seconds)), 2) if seconds else 0.0,
    }


def _count_moves(moves: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the moves of both phases, and the model's seconds that those of phase I take off the sum of all loads."""
    first = [move["saved"] for move in moves if move["reason"] in PHASE_ONE]
    return {
        "phase_one_moves": len(first),
        "phase_two_moves": len(moves) - len(first),
        "phase_one_saved_seconds": round(sum(first), 4),
    }


def _loads(bench: BenchHome, batch: int) -> np.ndarray:
    """Read the CPU seconds of each worker in a batch."""
    of_workers = (pds.field("batch_id") == batch) & (pds.field("unit") == names.WHOLE_WORKER)
    rows = read_table(bench.home.table(names.UNIT_LOADS), filter=of_workers)
    return np.asarray(rows.sort_by("worker").column("cpu_seconds").to_numpy())
