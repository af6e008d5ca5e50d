"""Benchmark the partitioners of DSkype: what each unit of their plans holds, receives and computes.

Source: Skype, section 8.2: tables 2 and 5, figures 21 to 26. The streams have the vocabulary and the mean number of
words of the paper's data sets (table 3). Units run one after the other in this process: the CPU seconds of the slowest
one bound the throughput of a cluster, without its network. All planners must find the same number of pairs.
"""

import time
from typing import Any

from benchmarks.support.answers.topk_worlds import TopkWorld, make_worlds
from benchmarks.support.measured_homes import STREAMS, Stream
from benchmarks.support.measured_worlds import figures_of
from pststream.answers.topk_units import measure_plan
from pststream.base import names
from pststream.base.progress import Progress, Steps
from pststream.pipeline.calibrate.synthetic_homes import QueryWords
from pststream.planning.papers.topk_planners import HYBRIDS, make_topk_plan
from pststream.planning.papers.topk_sample import count_loads
from pststream.settings import Settings
from pststream.workloads.random_texts import PowerLaw

DATA = {
    "tweets": STREAMS["tweets"],
    "gn": Stream(7.0, PowerLaw(208_000, shift=20.0)),
    "yelp": Stream(37.0, PowerLaw(85_000, shift=20.0)),
    "place": STREAMS["place"],
}
"""TWEETS, GN and YELP of table 3: words of a message, vocabulary. Place of DkM-SKS has the shortest texts, so the
highest thresholds and the shortest loose prefixes.
"""

SWEPT = "tweets"
"""The stream of the sweeps."""

SIZES = {"small": (1_000, 600, 200), "full": (5_000_000, 400_000, 5_000)}
"""Subscriptions, messages of the window, messages that are measured. The paper has a window of 1,000,000 messages."""

SAMPLED = {"small": 500, "full": 50_000}
"""Messages in the sample of a plan."""

UNITS = {"small": 4, "full": 32}
SWEPT_UNITS = {"small": (2,), "full": (4, 8, 16)}
K, SWEPT_K = 20, {"small": (10,), "full": (10, 30, 40, 50)}
SWEPT_SIZES = {"small": (500,), "full": (200_000, 1_000_000, 2_500_000)}
"""Subscriptions, fewer than those of SIZES. The paper has 5 to 20 million."""

SWEPT_PLANNERS = ("hash", "location", "prefix")
"""Planners of figures 22 to 24, as in the paper."""

BY_PRODUCT = ("keyword", "prefix")
"""Planners that are also measured with the paper's cost of runs of words, on the stream of the sweeps."""


def kept_for(k: int) -> int:
    """Return the entries of a buffer: half as many again as the answer."""
    return k + k // 2


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure all planners on each stream, then the sweeps of the paper on the first one."""
    units = UNITS[scale]
    levels = [1 << bit for bit in range(units.bit_length()) if units % (1 << bit) == 0]
    sweeps = len(SWEPT_UNITS[scale]) + len(SWEPT_K[scale]) + len(SWEPT_SIZES[scale])
    swept = sweeps * len(SWEPT_PLANNERS) + len(BY_PRODUCT) + 2 * len(levels)
    steps = Steps(progress, len(DATA) * len(names.TOPK_PLANNERS) + swept)
    figures: dict[str, Any] = {"subscriptions": SIZES[scale][0], "units": units, "window": SIZES[scale][1]}

    def measure(world: TopkWorld, planners: tuple[str, ...], number: int, prefix: str, **options: object) -> None:
        for planner in planners:
            measured = measure_planner(world, planner, number, SAMPLED[scale], options)
            figures.update(figures_of(f"{prefix}_{planner}", measured))
            steps.end(f"{prefix} {planner}: {measured['throughput']} messages/s")
        _require_equal_pairs(figures, prefix)

    for name, stream in DATA.items():
        swept_k = SWEPT_K[scale] if name == SWEPT else ()
        world, *others = make_worlds(stream, SIZES[scale], [kept_for(k) for k in (K, *swept_k)], QueryWords(5), seed)
        measure(world, names.TOPK_PLANNERS, units, name)
        if name == SWEPT:
            measure(world, BY_PRODUCT, units, "product", cost="product")
            for number in SWEPT_UNITS[scale]:
                measure(world, SWEPT_PLANNERS, number, f"units_{number}")
            for level in levels:
                measure(world, HYBRIDS, units, f"first_{level}", first=level)
            for size in SWEPT_SIZES[scale]:
                measure(world.first(size), SWEPT_PLANNERS, units, f"size_{size}")
        for k, other in zip(swept_k, others, strict=True):
            measure(other, SWEPT_PLANNERS, units, f"k_{k}")
    return {"figures": figures, "floor": {}, "targets": {}}


def measure_planner(
    world: TopkWorld, planner: str, units: int, sampled: int, options: dict[str, object]
) -> dict[str, float]:
    """Make a plan, build the index of each of its units, and search it with the messages that go there."""
    sample = world.sample(sampled)
    began = time.process_time()
    plan = make_topk_plan(planner, sample, units, options)
    planning = time.process_time() - began
    measured = measure_plan(world.subscriptions, world.messages, plan)
    return {
        **measured.figures(len(world.subscriptions.key), len(world.messages.key)),
        "model_imbalance": round(count_loads(sample, plan).imbalance, 2),
        "plan_seconds": round(planning, 2),
    }


def _require_equal_pairs(figures: dict[str, Any], prefix: str) -> None:
    pairs = {value for name, value in figures.items() if name.startswith(f"{prefix}_") and name.endswith("_pairs")}
    if len(pairs) > 1:
        raise ValueError(f"{prefix}: the planners find different pairs: {sorted(pairs)}")
