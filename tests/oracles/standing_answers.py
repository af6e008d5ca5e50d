"""Answers of subscriptions with memory in plain Python: every object is compared with every subscription, at each time.

Shares no code with the buffers: the answer after a batch is computed from all objects of the log up to its end.
"""

from collections.abc import Callable
from typing import NamedTuple


class StandingObject(NamedTuple):
    """An accepted object: its position in the log and its time."""

    key: int
    ts: int


class StandingSubscription(NamedTuple):
    """A subscription that wants its `k` best objects.

    window_us, window_objects   length of its window; None: none
    counts_from                 least ts of an object that counts; None: any
    end_at                      end of validity by expiry or deletion, exclusive; None: never
    """

    key: int
    k: int
    window_us: int | None
    window_objects: int | None
    counts_from: int | None
    created_at: int
    end_at: int | None


ValueOf = Callable[[StandingSubscription, StandingObject], float | None]
"""The value of an object for a subscription, the least is the best; None: they do not match."""

Ranked = list[tuple[int, int, float]]
"""(object key, ts, value), the best first."""


def stream_time_of(objects: list[StandingObject]) -> int | None:
    """Return the greatest time of any object; None: there is none."""
    return max((one.ts for one in objects), default=None)


def lives(subscription: StandingSubscription, objects: list[StandingObject]) -> bool:
    """Return whether the subscription has an answer after these objects."""
    now = stream_time_of(objects)
    if now is None or now < subscription.created_at:
        return False
    return subscription.end_at is None or now < subscription.end_at


def ranked(subscription: StandingSubscription, objects: list[StandingObject], value_of: ValueOf) -> Ranked:
    """Return all objects that count for a live subscription, the best first."""
    counted = sorted(objects, key=lambda one: (one.ts, one.key), reverse=True)
    if subscription.window_objects is not None:
        counted = counted[: subscription.window_objects]
    if subscription.window_us is not None:
        counted = [one for one in counted if one.ts > counted[0].ts - subscription.window_us]
    if subscription.counts_from is not None:
        counted = [one for one in counted if one.ts >= subscription.counts_from]
    rows = [(one.key, one.ts, value_of(subscription, one)) for one in counted]
    # Sorting is stable: of equal values the newest stays before the others.
    return sorted([row for row in rows if row[2] is not None], key=lambda row: row[2])


def answer(subscription: StandingSubscription, objects: list[StandingObject], value_of: ValueOf) -> Ranked:
    """Return the answer of a subscription after these objects; of one that does not live, nothing."""
    if not lives(subscription, objects):
        return []
    return ranked(subscription, objects, value_of)[: subscription.k]
