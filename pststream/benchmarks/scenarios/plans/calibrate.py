"""Measure the constants of the cost model (settings `cost_*`) by running the real job under several plans.

The cost model is Definition 1 of PS2Stream.

Each (workload, plan, worker) is one point: objects received, subscriptions stored, postings read, matches, and the CPU
seconds, the least of several rounds. The cost of insertions (c3) is the time to build segments. The costs of pairs,
objects (c1, c2), postings and matches are the non-negative least squares of relative errors over all points. The points
cover keywords joined by OR and by AND, because with either alone the matches are a fixed share of the postings, and
narrow and wide regions. The cost of deletions (c4) is the time to mark them in a segment.

Source: PS2Stream section IV-A, which does not say how its constants were found.
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
from pststream.benchmarks.support.steps import Steps
from pststream.benchmarks.support.targets import at_least, at_most
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.generator.synthetic_arrays import synthetic_objects, synthetic_subscriptions
from pststream.matching.deletions import build_deletions, deleted_pieces, merge_deletions
from pststream.matching.segments import build_segment
from pststream.pipeline.comparing.planner_trial import Trial
from pststream.progress import Progress
from pststream.settings import Settings

SIZES = {"small": (50_000, 50_000), "full": (1_000_000, 500_000)}
PLANS = (("kd_tree", 2), ("kd_tree", 8), ("grid", 4), ("grid", 16))
STYLES = (
    SubscriptionStyle("q1", "or", frequent_share=0.3),
    SubscriptionStyle("q2", "or", frequent_share=0.3),
    SubscriptionStyle("q1", "and", frequent_share=0.45),
)
ROUNDS = 4
LEAST_SHARE = 1 / 64
"""Least cost of a posting as a share of a match: the sample counts a match in postings, so it must not be zero."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the settings `cost_*`, and how well they predict the load of workers.

    Prediction is cross-validated: the load of each workload and plan is predicted by constants fitted to all others.
    """
    steps = Steps(progress, len(STYLES) * len(PLANS))
    trials = [trial for style in STYLES for trial in _run_trials(scale, seed, style, settings, steps, progress)]
    points = [_points(trial) for trial in trials]
    sent, stored, read, matched, cpu = np.concatenate(points).T
    insert = sum(trial.build_seconds for trial in trials) / float(stored.sum())
    terms = np.column_stack([sent * stored, sent, read, matched])
    check, handle, posting, match = _fit(terms, cpu)
    predicted = _cross_validate(terms, cpu, np.repeat(np.arange(len(points)), [len(part) for part in points]))
    figures = {
        "cost_check": float(check),
        "cost_object": float(handle),
        "cost_insert": insert,
        "cost_delete": _deletion(seed),
        "cost_posting": max(float(posting), float(match) * LEAST_SHARE),
        "cost_match": float(match),
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


def _run_trials(
    scale: str, seed: int, style: SubscriptionStyle, settings: Settings, steps: Steps, progress: Progress
) -> list[Trial]:
    """Match the same objects under each of PLANS, round after round."""
    subscriptions, objects = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_subscriptions(subscriptions, style)
        bench.add_objects(objects)
        trials: list[Trial] = []
        for planner, workers in PLANS:
            chosen = replace(settings, workers=workers, cache_dir=f"{folder}/cache")
            trials.append(Trial(bench.home, chosen, planner, objects, Path(folder) / f"trial-{len(trials)}"))
            steps.end(f"{style.kind}, keywords joined by {style.connective}, {planner} over {workers} workers")
        for _ in range(ROUNDS):
            for trial in trials:
                trial.match_again()
    return trials


def _points(trial: Trial) -> np.ndarray:
    """Objects, stored pieces, postings read, matches, CPU seconds of each worker: float64[workers, 5]."""
    workers = trial.loads.column("worker").to_numpy()
    figures = [trial.loads.column(name).to_numpy() for name in ("objects", "subscriptions", "candidates", "matches")]
    return np.column_stack([*figures, trial.worker_seconds()[workers]])


def _fit(terms: np.ndarray, cpu: np.ndarray) -> np.ndarray:
    """Fit the cost of each term. Errors are relative, so that small workers count as much as large ones."""
    costs: np.ndarray = nnls(terms / cpu[:, None], np.ones(len(cpu)))[0]
    return costs


def _cross_validate(terms: np.ndarray, cpu: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Predict the seconds of each point from costs fitted to the points of the other groups."""
    predicted = np.empty(len(cpu))
    for number in np.unique(group):
        mine = group == number
        predicted[mine] = terms[mine] @ _fit(terms[~mine], cpu[~mine])
    return predicted


def _deletion(seed: int) -> float:
    """Measure the seconds to mark one deletion in a segment."""
    drawn = synthetic_subscriptions(200_000, seed, synthetic_objects(20_000, seed), STYLES[0])
    segment = build_segment(index_table(drawn, clause_lists(drawn)))
    rows = pa.table({"subscription_key": segment.subscription_keys[::10], "end_at": segment.validity[::10, 1]})
    began = time.thread_time()
    for _ in range(5):
        deleted_pieces(segment, *merge_deletions([build_deletions(rows)]))
    return (time.thread_time() - began) / (5 * rows.num_rows)
