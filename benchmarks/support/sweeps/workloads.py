"""Describe the sweeps of a paper: workloads, the points measured on each, and the ratios that the paper reports."""

from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.support.measured_homes import ObjectSource
from pststream.workloads.draw_subscriptions import SubscriptionStyle


class Trial(NamedTuple):
    """Workers, planners and options of these, at a point of a sweep."""

    workers: int
    planners: tuple[str, ...]
    options: str = ""


@dataclass(frozen=True)
class Workload:
    """A workload, and the trials on it by the name of their point.

    times         subscriptions, as a multiple of those of the benchmark
    objects_from  where objects are drawn from; None: around the cities of the USA
    """

    style: SubscriptionStyle
    trials: dict[str, Trial]
    times: float = 1.0
    objects_from: ObjectSource | None = None
