"""Benchmark the matching kernel with growing numbers of subscriptions, at constant matches per object.

Measures CPU time per object and memory per subscription.
"""

import math
from typing import Any

from benchmarks.scenarios.streams.kernel import measure
from pststream.base.progress import Progress, Steps
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle

FULL = (500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000)
SMALL = (50_000, 100_000, 200_000)
FIRST_SHARE = 0.5
"""Share of frequent keywords at the first size."""

RARE, FREQUENT = 0.32, 35.4
"""Matches per object for a million subscriptions with rare keywords, and additional matches if all are frequent."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure microseconds per object and bytes per subscription at each size, and compare with logarithmic growth."""
    sizes = FULL if scale == "full" else SMALL
    figures: dict[str, float] = {}
    steps = Steps(progress, len(sizes))
    for size in sizes:
        # The share of frequent keywords falls with the size, so that the matches per object stay constant.
        share = (RARE + FREQUENT * FIRST_SHARE) * sizes[0] / size - RARE
        figures[f"frequent_share_at_{size}"] = round(share / FREQUENT, 4)
        measured = measure(size, SubscriptionStyle(frequent_share=share / FREQUENT), seed, steps)
        for name in (
            "microseconds_per_object",
            "bytes_per_subscription",
            "matches_per_object",
            "candidates_per_object",
        ):
            figures[f"{name}_at_{size}"] = measured[name]
    first, last = sizes[0], sizes[-1]
    time_growth = figures[f"microseconds_per_object_at_{last}"] / figures[f"microseconds_per_object_at_{first}"]
    figures["time_growth"] = round(time_growth, 3)
    figures["size_growth"] = last / first
    figures["logarithm_growth"] = round(math.log(last) / math.log(first), 3)
    figures["exponent"] = round(math.log(time_growth) / math.log(last / first), 3)
    bytes_growth = figures[f"bytes_per_subscription_at_{last}"] / figures[f"bytes_per_subscription_at_{first}"]
    figures["bytes_growth"] = round(bytes_growth, 3)
    return {
        "figures": figures,
        "floor": {},
        "targets": {
            "time_growth": {"target": figures["logarithm_growth"], "met": time_growth <= figures["logarithm_growth"]}
        },
    }
