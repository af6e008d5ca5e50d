"""Draw the terms of random texts; in each area of the Earth some terms (topics) are more frequent than elsewhere."""

import numpy as np

from pststream.base.integer_hash import hash_integers, hash_to_unit
from pststream.workloads.power_law import PowerLaw

AREA_DEGREES = 1.5
TOPICS = 24
"""Number of topics of an area."""

_EVERYWHERE = 50
"""Number of the most frequent terms, which are not topics."""

_FAVOUR = PowerLaw(TOPICS, exponent=1.0, shift=2.0)


def area_of(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the area of each point, a square of AREA_DEGREES: int64."""
    across = int(360 / AREA_DEGREES)
    column = np.floor((np.asarray(lon) + 180.0) / AREA_DEGREES).astype(np.int64) % across
    row = np.floor((np.asarray(lat) + 90.0) / AREA_DEGREES).astype(np.int64)
    return row * across + column


def topic_terms(areas: np.ndarray, unit: np.ndarray, law: PowerLaw, seed: int) -> np.ndarray:
    """Return a topic term of each area, chosen by `unit` in [0, 1): int32 ranks of `law`.

    The topics of an area depend on the area and the seed alone. The most frequent terms are not topics; beyond them the
    ranks are spread evenly over the logarithm, so a topic may be a common word or a rare one.
    """
    slot = _FAVOUR.ranks(unit).astype(np.int64)
    key = hash_integers(areas, seed).view(np.int64) + slot
    first = min(_EVERYWHERE, law.size // 10) + 1.0
    rank = first * np.exp(hash_to_unit(key, seed + 1) * np.log(law.size / first)) - 1.0
    return np.minimum(rank, law.size - 1).astype(np.int32)


def draw_terms(rng: np.random.Generator, areas: np.ndarray, law: PowerLaw, seed: int, local_share: float) -> np.ndarray:
    """Draw one term for each entry of `areas`: int32 ranks of `law`; a share of them are topics of the area."""
    terms = law.ranks(rng.random(len(areas)))
    local = np.flatnonzero(rng.random(len(areas)) < local_share)
    terms[local] = topic_terms(areas[local], rng.random(len(local)), law, seed)
    return terms
