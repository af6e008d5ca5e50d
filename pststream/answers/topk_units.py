"""Choose the `topk` subscriptions and words of a unit of a plan, and measure the search of each unit."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pststream.answers.scored_index import Messages, ScoredIndex, ScoredSubscriptions, take_rows
from pststream.planning.papers.topk_sample import TopkSample, find_stored, mark_prefix
from pststream.plans.imbalance import imbalance_of
from pststream.plans.topk_plan import TopkPlan


class UnitShare(NamedTuple):
    """The share of a unit of a plan."""

    plan: TopkPlan
    unit: int

    def mark(self, subscriptions: ScoredSubscriptions) -> np.ndarray:
        """Return which words of the subscriptions have postings at the unit, wherever they are: bool[m]."""
        some = subscriptions
        is_own = self.plan.owns(self.unit, some.terms)
        if self.plan.is_prefix:
            is_own &= mark_prefix(some.alpha, some.threshold, some.offsets, some.terms, some.weights)
        return is_own

    def select(self, subscriptions: ScoredSubscriptions) -> ScoredSubscriptions:
        """Return those that the unit holds: their place is in its part of the space, and one of their words marked."""
        some = subscriptions
        is_stored = np.zeros(len(some.key), bool)
        is_stored[np.repeat(np.arange(len(some.key)), np.diff(some.offsets))[self.mark(some)]] = True
        is_stored &= self.plan.holds(self.unit, some.key, some.lon, some.lat)
        return take_rows(some, np.flatnonzero(is_stored))


SEARCHES = 3
"""Searches of a unit, the fastest of which counts: the system may interrupt one of a millisecond for much longer."""


class MeasuredUnit(NamedTuple):
    """CPU seconds of the fastest search of a unit, the subscriptions that it stores, and the pairs that it finds."""

    seconds: float
    subscriptions: int
    pairs: int


def as_sample(subscriptions: ScoredSubscriptions, messages: Messages, scale: float = 1.0) -> TopkSample:
    """Return subscriptions and messages as a sample; scale: subscriptions for each of these."""
    some, sent = subscriptions, messages
    columns = (some.key, some.lon, some.lat, some.alpha, some.threshold, some.offsets, some.terms, some.weights)
    return TopkSample(*columns, sent.lon, sent.lat, sent.offsets, sent.terms, scale)


def take_messages(messages: Messages, rows: slice | np.ndarray) -> Messages:
    """Return some messages, in the order of `rows`."""
    return take_rows(messages, np.arange(len(messages.key))[rows])


class MeasuredPlan(NamedTuple):
    """The units of a plan, the pairs of a message and a unit that it goes to, and the CPU seconds to find these."""

    units: list[MeasuredUnit]
    sent: int
    route_seconds: float

    def figures(self, subscriptions: int, messages: int) -> dict[str, Any]:
        """Return figures of so many subscriptions and messages.

        {"throughput": messages/s over the CPU seconds of the slowest unit, "total_us", "slowest_us": CPU microseconds
        of all units and of the slowest, a message, "imbalance": of their seconds, "replication": units that store a
        subscription, "copies": units that a message goes to, on average, "route_us": CPU microseconds to find them,
        "pairs": candidates}
        """
        seconds, count = [one.seconds for one in self.units], max(messages, 1)
        return {
            "throughput": round(count / max(seconds)),
            "total_us": round(sum(seconds) / count * 1e6, 2),
            "slowest_us": round(max(seconds) / count * 1e6, 2),
            "imbalance": round(imbalance_of(seconds), 2),
            "replication": round(sum(one.subscriptions for one in self.units) / max(subscriptions, 1), 3),
            "copies": round(self.sent / count, 2),
            "route_us": round(self.route_seconds / count * 1e6, 2),
            "pairs": sum(one.pairs for one in self.units),
        }


def measure_plan(subscriptions: ScoredSubscriptions, messages: Messages, plan: TopkPlan) -> MeasuredPlan:
    """Measure the units of a plan, which run one after the other in this process."""
    began = time.process_time()
    message, receiver = plan.route(messages.offsets, messages.terms)
    routing = time.process_time() - began
    subscription, holder = find_stored(as_sample(subscriptions, messages), plan)
    units = []
    for unit in range(plan.units):
        index = ScoredIndex(marks=UnitShare(plan, unit).mark)
        index.insert(take_rows(subscriptions, subscription[holder == unit]))
        units.append(measure_unit(index, take_messages(messages, message[receiver == unit])))
    return MeasuredPlan(units, len(message), routing)


def measure_unit(index: ScoredIndex, messages: Messages) -> MeasuredUnit:
    """Search the index of a unit."""
    seconds, pairs = time_fastest(lambda: len(index.find_candidates(messages).subscription))
    return MeasuredUnit(seconds, index.subscriptions, pairs)


def time_fastest(search: Callable[[], int], clock: Callable[[], float] = time.process_time) -> tuple[float, int]:
    """Run a search SEARCHES times; return the seconds of the fastest, at least 1 ns, and what the last one returned."""
    seconds, returned = np.inf, 0
    for _ in range(SEARCHES):
        began = clock()
        returned = search()
        seconds = min(seconds, clock() - began)
    return max(seconds, 1e-9), returned
