"""Benchmark load adjustment after a sudden imbalance: every balancer from the same start, on the same later objects.

The imbalances are those of SSTD, section 7.6, and of Tornado, section 6.4.
"""

import shutil
import tempfile
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from benchmarks.support.measured_homes import BenchHome
from pststream.base import names
from pststream.base.errors import PstError
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.planning.plan import plan
from pststream.pipeline.replan.balance import balance
from pststream.plans.imbalance import imbalance_of
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, synthetic_subscriptions

SIZES = {"small": (10_000, 50_000), "full": (40_000, 1_000_000)}
"""Subscriptions before the imbalance, and objects of a batch."""

WORKERS = 8
STYLE = SubscriptionStyle("q1")

BATCHES = 2
"""Batches between the imbalance and the adjustment, and measured batches after it."""

SIDE = 0.1
"""Sides of the region that gets additional load, as a share of those of the area."""

OF_PS2STREAM = ("gr", "dp", "si", "ra")
OF_SSTD = ("pm", "fm", "pm_fm", "fg", "pm_fm_fg", *OF_PS2STREAM)
OF_TORNADO = ("shift", *OF_PS2STREAM)


@dataclass(frozen=True)
class Imbalance:
    """A change of the workload, and who is to level it.

    planner  of the plan before the change
    methods  of the balancers
    crowded  share of the objects of a batch that lie in the region
    added    subscriptions added to the region, as a multiple of those before
    factor   of all coordinates, of objects and of subscriptions
    """

    planner: str
    methods: tuple[str, ...]
    crowded: float = 0.0
    added: int = 0
    factor: float = 1.0


IMBALANCES = {
    **{f"objects_{more}m": Imbalance("qt_tree", OF_SSTD, crowded=more / (30 + more)) for more in (10, 30, 50)},
    **{f"subscriptions_{added}x": Imbalance("qt_tree", OF_SSTD, added=added) for added in (1, 3)},
    **{f"scale_{factor:g}": Imbalance("a_grid", OF_TORNADO, factor=factor) for factor in (0.4, 0.5, 0.6, 0.7)},
}
"""SSTD: 10, 30 or 50 million objects on top of 30 million, or subscriptions, into one region. Tornado: all scaled."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure throughput, imbalance, moved subscriptions and seconds of each balancer after each imbalance.

    throughput: objects over the CPU seconds of the slowest worker, in BATCHES batches after the adjustment and a first
    one to warm up. `none` adjusts nothing. `shift` needs a plan of rectangles, PM, FM and
    FG several units a worker, and FG a tree, so each starts from the planner of its paper; GR, DP, SI and RA start from
    both. All must find the same matches.

    Departures from the papers: objects enter as rates, so a batch mixes those before and those added; SSTD does not say
    how many subscriptions it adds; coordinates are multiplied from the south-west corner of the area, as those of the
    Earth are negative in places. Latency of questions is not measured: they do not run on the units of a plan.
    """
    subscriptions, objects = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "objects": objects, "workers": WORKERS}
    steps = Steps(progress, sum(len(case.methods) + 1 for case in IMBALANCES.values()), alike=True)
    chosen = replace(settings, workers=WORKERS, balance_batches=BATCHES)
    for name, case in IMBALANCES.items():
        matches = set()
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            start = BenchHome(f"{folder}/start/home", seed, progress)
            _unbalance(start, case, scale, _in_folder(chosen, folder, "start", case.planner))
            for method in ("none", *case.methods):
                shutil.copytree(f"{folder}/start", f"{folder}/{method}")
                bench = copy(start)
                bench.home = Home(f"{folder}/{method}/home")
                measured = _adjust_and_measure(
                    bench, case, method, scale, _in_folder(chosen, folder, method, case.planner)
                )
                matches.add(measured.pop("matches"))
                figures |= {f"{name}_{method}_{figure}": value for figure, value in measured.items()}
                steps.end(f"{name}, {method}: {measured['throughput']} objects/s, imbalance {measured['imbalance']}")
                shutil.rmtree(f"{folder}/{method}")
        if len(matches) > 1:
            raise PstError(f"adjustment changed the matches of {name}: {matches}", "please report this bug")
    return {"figures": figures, "floor": {}, "targets": {}}


def _in_folder(settings: Settings, folder: str, method: str, planner: str) -> Settings:
    """Return settings with a cache of their own: Python workers keep segments by the paths of their homes."""
    return replace(settings, cache_dir=f"{folder}/{method}/cache", planner=planner)


def _unbalance(bench: BenchHome, case: Imbalance, scale: str, settings: Settings) -> None:
    """Plan for the workload before the change, then match batches of the one after it."""
    subscriptions, objects = SIZES[scale]
    bench.add_subscriptions(subscriptions, STYLE)
    bench.add_objects(objects)
    plan(bench.home, settings)
    match(bench.home, settings, max_objects=1 << 40)
    if case.added:
        around = crowd_objects(bench.source, bench.source, 1.0, bench.seed)
        added = synthetic_subscriptions(case.added * subscriptions, bench.seed + 1, around, STYLE)
        bench.add_drawn_subscriptions(added)
    if case.factor != 1.0:
        drawn = synthetic_subscriptions(subscriptions, bench.seed + 1, bench.source, STYLE)
        boxes = scale_points(drawn.boxes.reshape(-1, 2), bench.source, case.factor).reshape(-1, 4)
        bench.add_drawn_subscriptions(replace(drawn, boxes=boxes), delete=subscriptions)
    for number in range(BATCHES):
        _match_batch(bench, case, objects, number, settings)


def _adjust_and_measure(
    bench: BenchHome, case: Imbalance, method: str, scale: str, settings: Settings
) -> dict[str, Any]:
    """Adjust the plan by a method, then measure batches of the changed workload."""
    done = {"moved_subscriptions": 0, "seconds": 0.0}
    if method != "none":
        done = balance(bench.home, settings, "local", method=method)
    objects, loads, matches = SIZES[scale][1], np.zeros(WORKERS), 0
    for number in range(BATCHES + 1):
        batch, of_batch = _match_batch(bench, case, objects, BATCHES + number, settings)
        loads += of_batch if number else 0.0
        matches += batch["matches"]
    return {
        "throughput": round(BATCHES * objects / float(loads.max())),
        "imbalance": round(imbalance_of(loads), 3),
        "moved_subscriptions": done["moved_subscriptions"],
        "adjustment_seconds": done["seconds"],
        "matches": matches,
    }


def _match_batch(
    bench: BenchHome, case: Imbalance, objects: int, number: int, settings: Settings
) -> tuple[dict[str, Any], np.ndarray]:
    """Match a batch of the changed workload; return its figures and the CPU seconds of each worker."""
    drawn = synthetic_objects(objects, bench.seed * 1000 + number)
    points = scale_points(np.column_stack([drawn.lon, drawn.lat]), bench.source, case.factor)
    drawn = replace(drawn, lon=points[:, 0].copy(), lat=points[:, 1].copy())
    bench.add_drawn_objects([crowd_objects(drawn, bench.source, case.crowded, bench.seed)])
    (batch,) = match(bench.home, settings, max_objects=1 << 40, one=True)["batches"]
    rows = read_table(
        bench.home.table(names.UNIT_LOADS),
        filter=(pds.field("batch_id") == batch["batch_id"]) & (pds.field("unit") == names.WHOLE_WORKER),
    )
    seconds = np.zeros(WORKERS)
    seconds[rows.column("worker").to_numpy()] = rows.column("cpu_seconds").to_numpy()
    return batch, seconds


def crowd_objects(drawn: SyntheticObjects, area: SyntheticObjects, share: float, seed: int) -> SyntheticObjects:
    """Return the objects with a share of them replaced by objects that one region of an area has, some several times.

    So they have the words of their place, as subscriptions there have. Objects from elsewhere match nothing there, and
    are dropped before they reach a worker. The region has SIDE of the width and the height of the area, and lies around
    an object that is drawn by the seed.
    """
    rng = np.random.default_rng([seed, 5])
    there = np.flatnonzero(_is_in_region(area, int(rng.integers(len(area.lon)))))
    count = len(drawn.lon)
    others = count + there[rng.integers(len(there), size=count)]
    rows = np.where(rng.random(count) < share, others, np.arange(count))
    words = pa.concat_arrays(
        [pa.ListArray.from_arrays(a.term_offsets.astype(np.int32), a.terms) for a in (drawn, area)]
    )
    taken = words.take(pa.array(rows))
    return replace(
        drawn,
        lon=np.concatenate([drawn.lon, area.lon])[rows],
        lat=np.concatenate([drawn.lat, area.lat])[rows],
        term_offsets=taken.offsets.to_numpy().astype(np.int64),
        terms=taken.values.to_numpy(),
    )


def _is_in_region(area: SyntheticObjects, middle: int) -> np.ndarray:
    """Return whether each object lies in the region around the object in row `middle`: bool[n]."""
    points = np.column_stack([area.lon, area.lat])
    half = SIDE / 2 * (points.max(axis=0) - points.min(axis=0))
    return np.asarray((np.abs(points - points[middle]) <= half).all(axis=1))


def scale_points(points: np.ndarray, area: SyntheticObjects, factor: float) -> np.ndarray:
    """Multiply the distances of points (float64[n, 2]) from the south-west corner of an area."""
    corner = np.array([area.lon.min(), area.lat.min()])
    return corner + (points - corner) * factor
