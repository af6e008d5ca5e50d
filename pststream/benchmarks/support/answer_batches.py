"""Make a bucket of subscriptions with full buffers and batches of candidates, and measure how batches are folded.

The values are made up, so this measures the fold alone: neither the index nor the question engine. `python -m
pststream.benchmarks.support.answer_batches knn|topk FOLDER [SUBSCRIPTIONS]` prints the seconds.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pststream.answers.advance import advance
from pststream.answers.bucket_file import BucketState, build_bucket, open_bucket
from pststream.answers.contract import Asked, BatchEnd, Subscriptions, Thresholds, Values
from pststream.answers.fold import fold, fold_answers
from pststream.answers.sorted_rows import value_rows
from pststream.names import NEVER_US

NO_DELETIONS = (np.empty(0, np.int64), np.empty(0, np.int64))


class Recipe(NamedTuple):
    """A bucket and its batches.

    subscriptions   in the bucket
    least_k, most_k, kept   sizes of answers, and entries at an evaluation
    window          length of a count window; 0: none
    objects         of a batch
    candidates      of a batch, for the bucket
    """

    subscriptions: int
    least_k: int
    most_k: int
    kept: int
    window: int
    objects: int
    candidates: int


BUCKETS = 8
KNN = Recipe(10_000_000 // BUCKETS, 1, 10, 0, 0, 1_000, 51_000 // BUCKETS)
"""DkM-SKS, section 5: 51 changes of answers for each object."""
TOPK = Recipe(5_000_000 // BUCKETS, 20, 20, 30, 1_000_000, 10_000, 1_500_000 // BUCKETS)
"""Skype, section 8: a message enters 150 buffers."""


def make_bucket(path: Path, recipe: Recipe, seed: int = 1) -> BucketState:
    """Build a bucket whose buffers have the entries of a evaluation, at times spread over the window."""
    rng = np.random.default_rng(seed)
    n = recipe.subscriptions
    keys = (np.int64(1) << 32) + np.arange(n) * BUCKETS
    k = rng.integers(recipe.least_k, recipe.most_k + 1, n).astype(np.int32)
    kept = np.maximum(k, recipe.kept)
    nothing = np.zeros(n, np.int64)
    subscriptions = Subscriptions(
        keys, k, kept, nothing, np.full(n, recipe.window), nothing, nothing, np.full(n, NEVER_US)
    )  # fmt: skip
    owner = np.repeat(np.arange(n), kept)
    span = recipe.window or 1_000_000
    # Distances up to 1 or scores from 0.5 on, and no object twice in a buffer.
    values = (rng.random(len(owner)) * (0.5 if recipe.window else 1.0) - (1.0 if recipe.window else 0.0)).astype(
        np.float32
    )
    places = np.arange(len(owner)) - np.repeat(np.cumsum(kept) - kept, kept)
    objects = (places * span + rng.integers(0, span, len(owner))) // np.repeat(kept, kept)
    entries = Values(keys[owner], objects, objects, values)
    last = np.lexsort((values, owner))[np.cumsum(kept) - 1]
    limits = Thresholds(keys, values[last], objects[last], objects[last], np.ones(n, np.bool_))
    return build_bucket(path, subscriptions, entries, limits, 0)


def make_batch(state: BucketState, recipe: Recipe, batch_id: int) -> tuple[Values, BatchEnd]:
    """Make the candidates of a batch, all of them within the limits, and its end."""
    rng = np.random.default_rng(batch_id)
    span = recipe.window or 1_000_000
    rows = rng.integers(0, len(state.columns.key), recipe.candidates)
    objects = span + (batch_id - 1) * recipe.objects + rng.integers(0, recipe.objects, recipe.candidates)
    low, high = (-1.0, state.columns.threshold[rows]) if recipe.window else (0.0, state.columns.threshold[rows])
    values = (low + (high - low) * rng.random(recipe.candidates)).astype(np.float32)
    last = span + batch_id * recipe.objects - 1
    windows = np.array([recipe.window] if recipe.window else [], np.int64)
    boundaries = np.array([[last - recipe.window] * 2] if recipe.window else [], np.int64).reshape(-1, 2)
    return Values(state.columns.key[rows], objects, objects, values), BatchEnd(
        batch_id, last, last, windows, boundaries
    )


def none_inserted() -> Subscriptions:
    """Return no insertions."""
    wide, narrow = np.empty(0, np.int64), np.empty(0, np.int32)
    return Subscriptions(wide, narrow, narrow, wide, wide, wide, wide, wide)


def measure(path: Path, recipe: Recipe, batches: int) -> list[dict[str, float]]:
    """Fold batches one after the other; return CPU seconds and counts of each."""
    rows = []
    state = make_bucket(path, recipe)
    state.close()
    for batch_id in range(1, batches + 1):
        figures: dict[str, float] = {}
        state = _timed(figures, "open", open_bucket, path)
        candidates, end = make_batch(state, recipe, batch_id)
        _timed(figures, "sort", value_rows, state.columns, candidates)
        folded = _timed(figures, "fold", fold, state, none_inserted(), NO_DELETIONS, candidates, end)
        answers = made_up_answers(folded.asked, end)
        whole = _timed(figures, "answers", fold_answers, state, folded, answers)
        _timed(figures, "advance", advance, state, none_inserted(), NO_DELETIONS, whole.entries, whole.thresholds, end)
        figures |= {"entries": len(folded.entries.value), "changes": len(folded.changes.value)}
        figures |= {"limits": len(folded.thresholds.value), "asked": len(folded.asked.k)}
        figures |= {"bytes": path.stat().st_size / recipe.subscriptions, "mean size": state.columns.size.mean()}
        state.close()
        rows.append(figures)
    return rows


def made_up_answers(asked: Asked, end: BatchEnd) -> Values:
    """Return what evaluations might, for buffers that have run dry."""
    rng = np.random.default_rng(end.batch_id)
    owner = np.repeat(np.arange(len(asked.k)), asked.kept)
    objects = end.last_object - np.arange(len(owner)) % 997
    return Values(asked.subscription[owner], objects, objects, (rng.random(len(owner)) / 2 - 1).astype(np.float32))


def _timed(figures: dict[str, float], name: str, step: Callable[..., Any], *arguments: Any) -> Any:
    began = time.process_time()
    result = step(*arguments)
    figures[name] = time.process_time() - began
    return result


def main(kind: str, folder: str, subscriptions: str = "") -> None:
    """Print the figures of a few batches."""
    recipe = KNN if kind == "knn" else TOPK
    if subscriptions:
        share = int(subscriptions) / recipe.subscriptions
        recipe = recipe._replace(subscriptions=int(subscriptions), candidates=int(recipe.candidates * share))
    path = Path(folder, f"answers-{kind}")
    try:
        for figures in measure(path, recipe, 6):
            sys.stdout.write("  ".join(f"{name} {value:.4g}" for name, value in figures.items()) + "\n")
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
