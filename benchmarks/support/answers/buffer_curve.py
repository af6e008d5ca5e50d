"""Measure how often buffers run dry and how many objects enter them, by the entries that an evaluation keeps.

Scores are random, so that each object of the window is as likely as another to be the best one, as in the model of
Skype (section 6.2).
"""

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.support.answers.buffer_policies import trim_evaluations
from pststream.answers.bucket_file import NO_SUBSCRIPTIONS, Objects, build_bucket
from pststream.answers.contract import Asked, BatchEnd, Logged, Subscriptions, Values
from pststream.answers.fold import Deletions, advance, fold, fold_answers
from pststream.base import names
from pststream.base.names import NEVER_US

NO_DELETIONS: Deletions = (np.empty(0, np.int64), np.empty(0, np.int64))
NO_VALUES = Values(*(np.empty(0, kind) for kind in (np.int64, np.int64, np.int64, np.float32)))
NO_OBJECTS = Objects(np.empty(0, np.int64), np.empty(0, np.int64))

K = 20
BATCHES = 100
"""Of a turnover."""


class World(NamedTuple):
    """The number of subscriptions, the length of their count window, and how often it turns over."""

    subscriptions: int
    window: int
    turnovers: int

    @property
    def batch(self) -> int:
        """The number of objects of a batch."""
        return self.window // BATCHES

    @property
    def messages(self) -> int:
        """The number of objects of all batches that are folded."""
        return (self.turnovers + 1) * BATCHES * self.batch


class Figures(NamedTuple):
    """Per subscription and turnover of the window: evaluations, entries that were logged; and entries of a buffer."""

    evaluations: float
    entries: float
    size: float
    cpu_seconds: float


def values_of(keys: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Return negative scores of pairs between 0 and 1, evenly spread and a function of the pair: float32[n]."""
    mixed = (keys.astype(np.uint64) << np.uint64(32)) + objects.astype(np.uint64)
    for shift in (30, 27, 31):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(0xBF58476D1CE4E5B9)
    return -((mixed >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24))


def run(path: Path, kept: np.ndarray, world: World, trims: bool = False) -> Figures:
    """Fold batches over some turnovers of a full window; the one before them is not counted.

    kept: entries at an evaluation, int32[subscriptions]; trims: as `skyband` does, then `kept` is the whole window
    """
    count, window, batch = world.subscriptions, world.window, world.batch
    keys, none = np.arange(count), np.zeros(count, np.int64)
    added = Subscriptions(
        keys, np.full(count, K, np.int32), kept, none, none + window, none + names.NO_TIME, none, none + NEVER_US
    )
    thresholds = np.full(count, np.inf, np.float32)
    evaluations, entries, sizes, spent = 0, 0, [], 0.0
    with build_bucket(path, added, NO_OBJECTS, [], 0) as state:
        for batch_id in range(1, (world.turnovers + 1) * BATCHES + 1):
            last = window + batch_id * batch - 1
            end = BatchEnd(batch_id, last, last, np.array([window]), np.array([[last - window, last - window]]))
            objects = np.arange(last - batch + 1, last + 1)
            subscription, number = np.repeat(keys, batch), np.tile(objects, count)
            values = values_of(subscription, number)
            passed = values <= thresholds[subscription]
            candidates = Values(subscription[passed], number[passed], number[passed], values[passed])
            began = time.process_time()
            folded = fold(state, NO_SUBSCRIPTIONS, NO_DELETIONS, candidates, end)
            spent += time.process_time() - began
            asked, answers = folded.asked, evaluate(folded.asked, last, window)
            if trims:
                asked, answers = trim_evaluations(asked, answers)
            whole = fold_answers(state, folded._replace(asked=asked), answers)
            advance(state, NO_SUBSCRIPTIONS, NO_DELETIONS, [Logged(whole.entries, whole.thresholds)], end)
            thresholds[whole.thresholds.subscription] = whole.thresholds.value
            if batch_id > BATCHES:
                evaluations += len(asked.k)
                entries += len(folded.entries.value)
                sizes.append(state.columns.size.mean())
    path.unlink()
    total = count * world.turnovers
    return Figures(evaluations / total, entries / total, float(np.mean(sizes)), spent)


def evaluate(asked: Asked, last: int, length: int) -> Values:
    """Return the best objects of the window of this length, up to the last object, for each subscription."""
    window = np.arange(last - length + 1, last + 1)
    rows = []
    for key, kept in zip(asked.subscription, asked.kept):
        values = values_of(np.full(length, key), window)
        # Of equal values the newest comes first.
        best = np.lexsort((-window, values))[:kept]
        rows.append((np.full(len(best), key), window[best], window[best], values[best]))
    return Values(*(np.concatenate(column) for column in zip(*rows))) if rows else NO_VALUES
