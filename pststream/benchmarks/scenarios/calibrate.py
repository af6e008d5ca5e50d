"""The constants of Definition 1 on this machine, from what workers cost when the real job runs under several plans.

Each (workload, plan, worker) gives a point: objects it got, subscriptions it holds, postings it read, matches it found,
CPU seconds it took, the least of some rounds. Insertions (c3) are told from the building of segments; pairs, objects
(c1, c2), postings and matches by the least non-negative squares of relative errors over points, of keywords joined by
OR and by AND, as with either alone matches are a fixed part of the postings, and of narrow and wide regions; deletions
(c4) by marking them in a segment. Source: PS2Stream section IV-A, which does not say how its constants were found.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

from pststream.benchmarks.support.arrays import clause_lists, index_table
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.targets import at_least, at_most
from pststream.generator.paper_subscriptions import QueryStyle
from pststream.generator.synthetic_arrays import synthetic_objects, synthetic_subscriptions
from pststream.matching.deletions import build_deletions, deleted_pieces, merge_deletions
from pststream.matching.segments import build_segment
from pststream.pipeline.comparing.planner_trial import Trial
from pststream.progress import Progress
from pststream.settings import Settings

SIZES = {"small": (50_000, 50_000), "full": (1_000_000, 500_000)}
PLANS = (("kd_tree", 2), ("kd_tree", 8), ("grid", 4), ("grid", 16))
STYLES = (
    QueryStyle("q1", "or", frequent_share=0.3),
    QueryStyle("q2", "or", frequent_share=0.3),
    QueryStyle("q1", "and", frequent_share=0.45),
)
ROUNDS = 4
LEAST_SHARE = 1 / 64
"""Of a match that a posting costs at least: as the sample counts a match in postings, it may not be nothing."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """The settings `cost_*`, and how well such tell the load of workers that they were not fitted to: those of each
    workload and plan are told by constants that were fitted to all the others.
    """
    trials = [trial for style in STYLES for trial in _tried(scale, seed, style, settings, progress)]
    points = [_points(trial) for trial in trials]
    sent, stored, read, matched, cpu = np.concatenate(points).T
    insert = sum(trial.build_seconds for trial in trials) / float(stored.sum())
    terms = np.column_stack([sent * stored, sent, read, matched])
    check, handle, posting, found = _fitted(terms, cpu)
    predicted = _told_by_others(terms, cpu, np.repeat(np.arange(len(points)), [len(part) for part in points]))
    figures = {
        "cost_check": float(check),
        "cost_object": float(handle),
        "cost_insert": insert,
        "cost_delete": _deletion(seed),
        "cost_posting": max(float(posting), float(found) * LEAST_SHARE),
        "cost_match": float(found),
        "points": len(cpu),
        "correlation": round(float(np.corrcoef(predicted, cpu)[0, 1]), 4),
        "total_over_measured": round(float(predicted.sum() / cpu.sum()), 4),
        "total_error": round(abs(float(predicted.sum() / cpu.sum()) - 1), 4),
    }
    return {
        "figures": figures,
        "floor": {},
        "targets": {
            "correlation": at_least(figures["correlation"], 0.95),
            "total_error": at_most(figures["total_error"], 0.15),
        },
    }


def _tried(scale: str, seed: int, style: QueryStyle, settings: Settings, progress: Progress) -> list[Trial]:
    """The same objects matched under each of PLANS, round after round."""
    subscriptions, objects = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_subscriptions(subscriptions, style)
        bench.add_objects(objects)
        trials: list[Trial] = []
        for planner, workers in PLANS:
            progress(f"{style.kind}, keywords joined by {style.connective}, {planner} over {workers} workers")
            chosen = replace(settings, workers=workers, cache_dir=f"{folder}/cache")
            trials.append(Trial(bench.home, chosen, planner, objects, Path(folder) / f"trial-{len(trials)}"))
        for _ in range(ROUNDS):
            for trial in trials:
                trial.match_again()
    return trials


def _points(trial: Trial) -> np.ndarray:
    """Objects, stored pieces, postings read, matches, CPU seconds of each worker: float64[workers, 5]."""
    workers = trial.loads.column("worker").to_numpy()
    figures = [trial.loads.column(name).to_numpy() for name in ("objects", "subscriptions", "candidates", "matches")]
    return np.column_stack([*figures, trial.worker_seconds()[workers]])


def _fitted(terms: np.ndarray, cpu: np.ndarray) -> np.ndarray:
    """What each term costs. Each point counts by its relative error, so that small workers count as much as large."""
    found: np.ndarray = nnls(terms / cpu[:, None], np.ones(len(cpu)))[0]
    return found


def _told_by_others(terms: np.ndarray, cpu: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Seconds of each point, as told by what was fitted to the points of the other groups."""
    told = np.empty(len(cpu))
    for number in np.unique(group):
        mine = group == number
        told[mine] = terms[mine] @ _fitted(terms[~mine], cpu[~mine])
    return told


def _deletion(seed: int) -> float:
    """Seconds to mark a deletion in a segment."""
    drawn = synthetic_subscriptions(200_000, seed, synthetic_objects(20_000, seed), STYLES[0])
    segment = build_segment(index_table(drawn, clause_lists(drawn)))
    rows = pa.table({"subscription_key": segment.records[::10, 0], "end_at": segment.records[::10, 2]})
    began = time.thread_time()
    for _ in range(5):
        deleted_pieces(segment, *merge_deletions([build_deletions(rows)]))
    return (time.thread_time() - began) / (5 * rows.num_rows)
