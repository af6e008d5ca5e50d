"""Make random `topk` subscriptions and messages with many coincidences, and convert them into arrays."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pststream.answers.contract import Values
from pststream.answers.scored_index import Messages, ScoredIndex, ScoredSubscriptions
from pststream.queries.shapes.contract import matched_lon
from tests.oracles.scored_subscriptions import GREATEST_DISTANCE_M, Message, Scored, values
from tests.worlds import LATS, LONS

SCALES = (1.0, 50_000.0, 2_000_000.0, GREATEST_DISTANCE_M)
Weights = dict[int, float]


def term(number: int) -> int:
    """Return the id of a word: ids are spread over 64 bits."""
    return (number + 1) * 0x9E3779B97F4A7C15 % 2**64 - 2**63


def some_place(rnd: random.Random) -> tuple[float, float]:
    """Return a place: at one of few points, near one, or anywhere."""
    lon, lat = rnd.choice(LONS), rnd.choice(LATS)
    if rnd.random() < 0.4:
        lon, lat = min(max(lon + rnd.gauss(0, 0.2), -180.0), 180.0), min(max(lat + rnd.gauss(0, 0.2), -90.0), 90.0)
    return lon, lat


def some_words(rnd: random.Random, vocabulary: int, most: int) -> tuple[int, ...]:
    """Return distinct words; those with small numbers are the most frequent."""
    drawn = {int(vocabulary * rnd.random() ** 3) for _ in range(rnd.randint(1, most))}
    return tuple(term(number) for number in sorted(drawn, key=lambda _: rnd.random()))


def random_world(rnd: random.Random, subscriptions: int, messages: int) -> tuple[list[Scored], list[Message], Weights]:
    """Return subscriptions without thresholds, messages, and weights of the words."""
    vocabulary = rnd.choice((3, 12, 60, 4_000))
    scales = rnd.choice((SCALES, SCALES[-1:]))
    # Multiples of 1 / 65,536, as all weights are; few of them, so that words have equal ones.
    weights = {term(number): rnd.randint(1, 24) / 2 for number in range(vocabulary)} if rnd.random() < 0.7 else {}
    made = [
        Scored(
            key,
            *some_place(rnd),
            some_words(rnd, vocabulary, 5),
            rnd.choice((0.0, 1.0, 0.5, rnd.random())),
            rnd.choice(scales),
        )  # fmt: skip
        for key in rnd.sample(range(10 * subscriptions), subscriptions)
    ]
    sent = [Message(key, *some_place(rnd), some_words(rnd, vocabulary, 12)) for key in range(messages)]
    return made, sent, weights


def with_thresholds(
    rnd: random.Random, subscriptions: list[Scored], messages: list[Message], weights: Weights
) -> list[Scored]:
    """Give subscriptions thresholds, many of them equal to the value of a message, or next to it."""
    worth = values(subscriptions, messages, weights)
    of_key: dict[int, list[float]] = {}
    for (key, _), value in worth.items():
        of_key.setdefault(key, []).append(value)
    changed = []
    for one in subscriptions:
        threshold = math.inf if rnd.random() < 0.1 else float(np.float32(-rnd.random()))
        if one.key in of_key and rnd.random() < 0.8:
            near = np.float32(rnd.choice(of_key[one.key]))
            threshold = float(rnd.choice((near, near, np.nextafter(near, np.float32(-2)))))
        changed.append(replace(one, threshold=threshold))
    return changed


def as_subscriptions(some: list[Scored], weights: Weights) -> ScoredSubscriptions:
    """Return the arrays of subscriptions."""
    offsets, terms = _lists([one.words for one in some])
    return ScoredSubscriptions(
        np.array([one.key for one in some], np.int64),
        *_points(some),
        *(np.array([getattr(one, name) for one in some], np.float64) for name in ("alpha", "scale")),
        np.array([one.threshold for one in some], np.float32),
        offsets,
        terms,
        _weights(terms, weights),
    )


def as_messages(some: list[Message], weights: Weights) -> Messages:
    """Return the arrays of messages; the ts of each is its key + 1,000."""
    offsets, terms = _lists([one.words for one in some])
    keys = np.array([one.key for one in some], np.int64)
    return Messages(keys, keys + 1_000, *_points(some), offsets, terms, _weights(terms, weights))


def candidates(index: ScoredIndex, messages: list[Message], weights: Weights) -> dict[tuple[int, int], float]:
    """Return the values of the pairs that an index finds, by the keys of both; each pair is found once."""
    found = index.find_candidates(as_messages(messages, weights))
    assert (found.ts == found.object + 1_000).all()
    return by_pair(found)


def by_pair(found: Values) -> dict[tuple[int, int], float]:
    """Return values by the keys of subscription and object."""
    pairs = list(zip(found.subscription.tolist(), found.object.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return dict(zip(pairs, found.value.tolist(), strict=True))


def _points(some: Sequence[Scored | Message]) -> tuple[np.ndarray, np.ndarray]:
    lon, lat = (np.array([getattr(one, name) for one in some], np.float64) for name in ("lon", "lat"))
    return matched_lon(lon, lat), lat


def _lists(lists: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return offsets, np.array([word for words in lists for word in words], np.int64)


def _weights(terms: np.ndarray, weights: Weights) -> np.ndarray:
    return np.array([weights.get(word, 1.0) for word in terms.tolist()], np.float32)
