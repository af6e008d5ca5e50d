"""Drift: the tastes of a tenth of the regions switch every interval (Q3); with load adjustment and without it."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pststream import names
from pststream.benchmarks.homes import BenchHome
from pststream.benchmarks.targets import at_least
from pststream.errors import PstError
from pststream.pipeline.balance import balance
from pststream.pipeline.match import match
from pststream.settings import Settings
from pststream.state import control
from pststream.workload.queries import QueryStyle

SIZES = {"small": (50_000, 20_000, 4), "full": (1_000_000, 200_000, 10)}
"""Live subscriptions, objects of an interval, intervals; a fifth of the subscriptions is renewed in each."""

STYLE = QueryStyle("q3", frequent_share=0.3)
SIGMA = 1.1


def run(scale: str, seed: int, settings: Settings, progress: Callable[[str], None]) -> dict[str, Any]:
    """Throughput of all workers (tuples over the slowest one's CPU seconds) and imbalance, over the whole run; and
    of each course `gain_if_even`, what would be gained if no worker ever had more to do than another.
    """
    chosen = replace(settings, sigma=SIGMA, balance_batches=1)
    figures: dict[str, Any] = {}
    found = {}
    for name in ("fixed", "adjusted"):
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            bench = BenchHome(f"{folder}/home", seed, progress)
            found[name] = _course(
                bench, replace(chosen, cache_dir=f"{folder}/cache"), scale, name == "adjusted", progress
            )
        figures |= {f"{name}_{figure}": value for figure, value in found[name].items()}
    if found["fixed"]["matches"] != found["adjusted"]["matches"]:
        raise PstError(f"adjustment changed the matches: {found}", "please report this fault")
    gain = found["adjusted"]["throughput"] / found["fixed"]["throughput"] - 1
    figures["gain"] = round(gain, 4)
    return {"figures": figures, "floor": {}, "targets": {"gain": at_least(gain, 0.26)} if scale == "full" else {}}


def _course(
    bench: BenchHome, settings: Settings, scale: str, adjust: bool, progress: Callable[[str], None]
) -> dict[str, Any]:
    subscriptions, objects, intervals = SIZES[scale]
    bench.add_subscriptions(subscriptions, STYLE)
    bench.add_objects(objects)
    match(bench.home, settings, one=True)
    slowest, even, tuples, matches, moved = 0.0, 0.0, 0, 0, 0
    imbalances, seconds = [], []
    for interval in range(1, intervals + 1):
        renewed = subscriptions // 5
        bench.add_subscriptions(renewed, STYLE, delete=renewed, interval=interval)
        bench.add_objects(objects)
        (batch,) = match(bench.home, settings, one=True)["batches"]
        loads = _loads(bench, batch["batch_id"])
        slowest += float(loads.max())
        even += float(loads.mean())
        imbalances.append(float(loads.max() / loads.min()))
        tuples += batch["objects"] + batch["requests"]
        matches += batch["matches"]
        if adjust:
            done = balance(bench.home, settings, "local")
            moved += done["moved_subscriptions"]
            seconds.append(done["seconds"])
        progress(f"interval {interval}: imbalance {imbalances[-1]:.2f}, {moved} subscriptions moved so far")
    return {
        "throughput": round(tuples / slowest),
        "gain_if_even": round(slowest / even - 1, 4),
        "imbalance_median": round(float(np.median(imbalances)), 3),
        "imbalance_max": round(max(imbalances), 3),
        "matches": matches,
        "moved_subscriptions": moved,
        "adjustment_seconds_median": round(float(np.median(seconds)), 2) if seconds else 0.0,
    }


def _loads(bench: BenchHome, batch: int) -> np.ndarray:
    """CPU seconds of each worker in a batch."""
    rows = control.read(bench.home, names.UNIT_LOADS, filters=[("batch_id", "=", batch), ("unit", "=", -1)])
    return np.asarray(rows.sort_by("worker").column("cpu_seconds").to_numpy())
