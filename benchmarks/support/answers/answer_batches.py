"""Make a bucket of subscriptions with full buffers and batches of candidates, and measure how batches are folded.

The values are made up, so this measures the fold alone: neither the index nor the question engine.
"""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from pststream.answers.bucket_file import BucketState, build_bucket, open_bucket, unite_objects
from pststream.answers.contract import Asked, BatchEnd, Logged, Subscriptions, Thresholds, Values
from pststream.answers.fold import advance, fold, fold_answers
from pststream.base.names import NEVER_US

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
    buffers = [Logged(entries, limits)]
    return build_bucket(path, subscriptions, unite_objects(buffers), buffers, 0)


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


def measure_bucket(recipe: Recipe) -> dict[str, float]:
    """Fold three batches one after the other in a bucket; return figures of all buckets together: medians.

    Returns {"made_up_subscriptions", "made_up_fold_ms", "made_up_advance_ms", "made_up_bytes_per_subscription"}; times
    are CPU time.
    """
    folds, advances = [], []
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        path = Path(folder, "answers")
        make_bucket(path, recipe).close()
        for batch_id in (1, 2, 3):
            with _opened(path) as state:
                candidates, end = make_batch(state, recipe, batch_id)
                began = time.process_time()
                folded = fold(state, none_inserted(), NO_DELETIONS, candidates, end)
                whole = fold_answers(state, folded, made_up_answers(folded.asked, end))
                folds.append(time.process_time() - began)
                advance(state, none_inserted(), NO_DELETIONS, [Logged(whole.entries, whole.thresholds)], end)
                advances.append(time.process_time() - began - folds[-1])
        size = path.stat().st_size
    return {
        "made_up_subscriptions": recipe.subscriptions * BUCKETS,
        "made_up_fold_ms": round(median(folds) * BUCKETS * 1e3, 1),
        "made_up_advance_ms": round(median(advances) * BUCKETS * 1e3, 1),
        "made_up_bytes_per_subscription": round(size / recipe.subscriptions, 1),
    }


def _opened(path: Path) -> BucketState:
    state = open_bucket(path)
    if state is None:
        raise ValueError(f"{path} is dirty or missing")
    return state


def made_up_answers(asked: Asked, end: BatchEnd) -> Values:
    """Return what evaluations might, for buffers that have run dry."""
    rng = np.random.default_rng(end.batch_id)
    owner = np.repeat(np.arange(len(asked.k)), asked.kept)
    objects = end.last_object - np.arange(len(owner)) % 997
    return Values(asked.subscription[owner], objects, objects, (rng.random(len(owner)) / 2 - 1).astype(np.float32))
