"""Draw the keywords of random subscriptions, as frequent as terms are in objects, or at least one rare (Q2)."""

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
    """Draw distinct keywords of each subscription: int32[n, max(wanted)], ascending in a row, absent ones (-1) first.

    wanted          int[n]     keywords to draw; a repeat is drawn again a few times, then dropped
    occurrences     int32[m]   the terms of the objects, an entry for each occurrence; 0 is the most frequent
    vocabulary      int        number of terms
    rare_from       int[n]     where above 0: at least one keyword is this term or a rarer one (PS2Stream, Q2)
    frequent_share  float      share of keywords drawn from `occurrences`; the others evenly from all terms
    """
    # Draw all keywords, and draw repeats again a few times.
    columns = np.arange(int(wanted.max(initial=1)))
    keywords = np.full((len(wanted), len(columns)), -1, dtype=np.int32)
    missing = columns < wanted[:, None]
    for _ in range(_TRIES):
        keywords[missing] = _draw(rng, int(missing.sum()), occurrences, vocabulary, frequent_share)
        keywords.sort(axis=1)
        missing = np.zeros_like(missing)
        missing[:, 1:] = (keywords[:, 1:] == keywords[:, :-1]) & (keywords[:, 1:] >= 0)
        if not missing.any():
            break
    keywords[missing] = -1
    # Replace one keyword of the subscriptions that need a rare one.
    short = np.flatnonzero((rare_from > 0) & (keywords.max(axis=1, initial=-1) < rare_from))
    if len(short):
        keywords[short, -1] = _draw_rare(rng, rare_from[short], occurrences, vocabulary)
    keywords.sort(axis=1)
    return keywords


def _draw(
    rng: np.random.Generator, count: int, occurrences: np.ndarray, vocabulary: int, frequent_share: float
) -> np.ndarray:
    """Draw terms from the occurrences, and a share of them evenly from the vocabulary."""
    terms = occurrences[rng.integers(0, len(occurrences), count)]
    if frequent_share < 1.0:
        rare = rng.random(count) >= frequent_share
        terms[rare] = rng.integers(0, vocabulary, int(rare.sum()))
    return terms


def _draw_rare(rng: np.random.Generator, rare_from: np.ndarray, occurrences: np.ndarray, vocabulary: int) -> np.ndarray:
    """Draw one term of each rank bound or rarer: from the occurrences, or evenly if a few draws find none."""
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
