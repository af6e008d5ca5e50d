"""Keywords of generated subscriptions, as frequent as the terms of objects."""

import numpy as np

_TRIES = 4


def draw_keywords(
    rng: np.random.Generator,
    wanted: np.ndarray,
    occurrences: np.ndarray,
    vocabulary: int,
    rare_from: np.ndarray,
    frequent_share: float = 1.0,
) -> np.ndarray:
    """Distinct keywords of each subscription: int32[n, max(wanted)], ascending in a row, absent ones (-1) first.

    wanted          int[n]     keywords to draw; a repeat is drawn again a few times, then dropped
    occurrences     int32[m]   the terms of the objects, an entry for each occurrence; 0 is the most frequent
    vocabulary      int        number of terms
    rare_from       int[n]     where above 0: at least one keyword is this term or a rarer one (PS2Stream, Q2)
    frequent_share  float      share of keywords drawn from `occurrences`; the others evenly from all terms
    """
    columns = np.arange(int(wanted.max(initial=1)))
    found = np.full((len(wanted), len(columns)), -1, dtype=np.int32)
    missing = columns < wanted[:, None]
    for _ in range(_TRIES):
        found[missing] = _draw(rng, int(missing.sum()), occurrences, vocabulary, frequent_share)
        found.sort(axis=1)
        missing = np.zeros_like(missing)
        missing[:, 1:] = (found[:, 1:] == found[:, :-1]) & (found[:, 1:] >= 0)
        if not missing.any():
            break
    found[missing] = -1
    short = np.flatnonzero((rare_from > 0) & (found.max(axis=1, initial=-1) < rare_from))
    if len(short):
        found[short, -1] = _draw_rare(rng, rare_from[short], occurrences, vocabulary)
    found.sort(axis=1)
    return found


def _draw(
    rng: np.random.Generator, count: int, occurrences: np.ndarray, vocabulary: int, frequent_share: float
) -> np.ndarray:
    terms = occurrences[rng.integers(0, len(occurrences), count)]
    if frequent_share < 1.0:
        rare = rng.random(count) >= frequent_share
        terms[rare] = rng.integers(0, vocabulary, int(rare.sum()))
    return terms


def _draw_rare(rng: np.random.Generator, rare_from: np.ndarray, occurrences: np.ndarray, vocabulary: int) -> np.ndarray:
    """One term at or above each bound, by frequency; evenly where none turns up in a few draws."""
    terms = rng.integers(rare_from, np.maximum(vocabulary, rare_from + 1)).astype(np.int32)
    undone = np.ones(len(terms), dtype=bool)
    for _ in range(4 * _TRIES):
        rows = np.flatnonzero(undone)
        if not len(rows):
            break
        drawn = occurrences[rng.integers(0, len(occurrences), len(rows))]
        good = drawn >= rare_from[rows]
        terms[rows[good]] = drawn[good]
        undone[rows[good]] = False
    return terms
