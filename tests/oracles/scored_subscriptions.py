"""Find the `topk` subscriptions that each message enters slowly, in plain Python: every pair is scored."""

import math
from dataclasses import dataclass

from tests.oracles.questions import float32
from tests.oracles.twin_regions import EARTH_RADIUS_M, distance_m

GREATEST_DISTANCE_M = math.pi * EARTH_RADIUS_M


@dataclass(frozen=True)
class Scored:
    """A subscription; `threshold`: the greatest value (negative score, float32) that enters."""

    key: int
    lon: float
    lat: float
    words: tuple[int, ...]
    alpha: float = 0.5
    scale: float = GREATEST_DISTANCE_M
    threshold: float = math.inf


@dataclass(frozen=True)
class Message:
    """An object; words are term ids."""

    key: int
    lon: float
    lat: float
    words: tuple[int, ...]


def score(
    subscription: Scored, message: Message, weights: dict[int, float], counting: set[int] | None = None
) -> float | None:
    """Return the score of a message, None if no word is shared; words without a weight weigh 1.

    counting: the shared words that count; None: all
    """
    shared = set(subscription.words) & set(message.words) if counting is None else counting
    if not shared:
        return None
    metres = distance_m(subscription.lon, subscription.lat, message.lon, message.lat)
    lengths = [math.sqrt(float32(_squared(words, weights))) for words in (subscription.words, message.words)]
    cosine = _squared(shared, weights) / lengths[0] / lengths[1]
    return subscription.alpha * max(0.0, 1.0 - metres / subscription.scale) + (1.0 - subscription.alpha) * cosine


def values(
    subscriptions: list[Scored], messages: list[Message], weights: dict[int, float]
) -> dict[tuple[int, int], float]:
    """Return the value of each pair of subscription and message that share a word, by their keys."""
    scored = {(one.key, other.key): score(one, other, weights) for one in subscriptions for other in messages}
    return {pair: float32(-value) for pair, value in scored.items() if value is not None}


def _squared(words, weights: dict[int, float]) -> float:
    return math.fsum(weights.get(word, 1.0) ** 2 for word in words)
