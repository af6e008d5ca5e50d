"""Measure how often buffers run dry and how many objects enter them, by the entries that an evaluation keeps.

Scores are random, so that each object of the window is as likely as another to be the best one, as in the model of
Skype (section 6.2). `python -m pststream.benchmarks.support.buffer_curve FOLDER` prints one line for each number and
for each policy of `pststream.answers.buffer_policy`.
"""

import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pststream.answers.advance import advance
from pststream.answers.bucket_file import NO_SUBSCRIPTIONS, build_bucket
from pststream.answers.buffer_policy import CSKYBAND, KMAX, SKYBAND, THRESHOLD, choose_kept, trim_evaluations
from pststream.answers.contract import NO_TIME, Asked, BatchEnd, Subscriptions, Thresholds, Values
from pststream.answers.fold import Deletions, fold, fold_answers
from pststream.names import NEVER_US

NO_DELETIONS: Deletions = (np.empty(0, np.int64), np.empty(0, np.int64))
NO_VALUES = Values(*(np.empty(0, kind) for kind in (np.int64, np.int64, np.int64, np.float32)))
NO_THRESHOLDS = Thresholds(*(np.empty(0, kind) for kind in (np.int64, np.float32, np.int64, np.int64, np.bool_)))

K = 20
WINDOW = 20_000
BATCH = 200
SUBSCRIPTIONS = 1_000
TURNOVERS = 3

EVALUATION_COST = 4_000.0
"""Cost of an evaluation in steps within a buffer, for `cskyband`: 45 us to 11 ns."""


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


def run(path: Path, kept: np.ndarray, trims: bool = False) -> Figures:
    """Fold batches over some turnovers of a full window; the first one is not counted."""
    keys, none = np.arange(SUBSCRIPTIONS), np.zeros(SUBSCRIPTIONS, np.int64)
    added = Subscriptions(
        keys, np.full(SUBSCRIPTIONS, K, np.int32), kept, none, none + WINDOW, none + NO_TIME, none, none + NEVER_US
    )
    thresholds = np.full(SUBSCRIPTIONS, np.inf, np.float32)
    evaluations, entries, sizes, spent = 0, 0, [], 0.0
    with build_bucket(path, added, NO_VALUES, NO_THRESHOLDS, 0) as state:
        for batch_id in range(1, (TURNOVERS + 1) * WINDOW // BATCH + 1):
            last = WINDOW + batch_id * BATCH - 1
            end = BatchEnd(batch_id, last, last, np.array([WINDOW]), np.array([[last - WINDOW, last - WINDOW]]))
            objects = np.arange(last - BATCH + 1, last + 1)
            subscription, number = np.repeat(keys, BATCH), np.tile(objects, SUBSCRIPTIONS)
            values = values_of(subscription, number)
            passed = values <= thresholds[subscription]
            candidates = Values(subscription[passed], number[passed], number[passed], values[passed])
            began = time.process_time()
            folded = fold(state, NO_SUBSCRIPTIONS, NO_DELETIONS, candidates, end)
            spent += time.process_time() - began
            asked, answers = folded.asked, evaluate(folded.asked, last)
            if trims:
                asked, answers = trim_evaluations(asked, answers)
            whole = fold_answers(state, folded._replace(asked=asked), answers)
            advance(state, NO_SUBSCRIPTIONS, NO_DELETIONS, whole.entries, whole.thresholds, end)
            thresholds[whole.thresholds.subscription] = whole.thresholds.value
            if batch_id > WINDOW // BATCH:
                evaluations += len(asked.k)
                entries += len(folded.entries.value)
                sizes.append(state.columns.size.mean())
    total = SUBSCRIPTIONS * TURNOVERS
    return Figures(evaluations / total, entries / total, float(np.mean(sizes)), spent)


def evaluate(asked: Asked, last: int) -> Values:
    """Return the best objects of the window for each subscription."""
    window = np.arange(last - WINDOW + 1, last + 1)
    rows = []
    for key, kept in zip(asked.subscription, asked.kept):
        values = values_of(np.full(WINDOW, key), window)
        # Of equal values the newest comes first.
        best = np.lexsort((-window, values))[:kept]
        rows.append((np.full(kept, key), window[best], window[best], values[best]))
    return Values(*(np.concatenate(column) for column in zip(*rows))) if rows else NO_VALUES


def main(folder: str) -> None:
    """Print the figures of each number of entries, then of each policy."""
    path, k = Path(folder, "buffer-curve"), np.full(SUBSCRIPTIONS, K, np.int32)
    runs = {f"{kept} at once": (np.full(SUBSCRIPTIONS, kept, np.int32), False) for kept in (20, 22, 25, 30, 40, 50)}
    for policy in (THRESHOLD, CSKYBAND, SKYBAND, KMAX):
        kept = choose_kept(policy, np.arange(SUBSCRIPTIONS), k, np.full(SUBSCRIPTIONS, 40, np.int32), EVALUATION_COST)
        runs[policy] = (kept, policy == SKYBAND)
    for name, (kept, trims) in runs.items():
        figures = run(path, kept, trims)._asdict()
        shown = "  ".join(f"{field} {value:.4g}" for field, value in figures.items())
        sys.stdout.write(f"{name}: kept {kept.mean():.1f}  {shown}\n")
    path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
