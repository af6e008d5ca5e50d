"""Measure the constants of the cost model (settings `cost_*`) by running the real job under several plans.

The cost model is Definition 1 of PS2Stream.

Each (workload, plan, worker) is one point: objects received, subscriptions stored, postings read, matches, and the CPU
seconds, the least of several rounds. The cost of insertions (c3) is the time to build segments. The costs of pairs,
objects (c1, c2), postings and matches are the non-negative least squares of relative errors over all points. The points
cover keywords joined by OR and by AND, because with either alone the matches are a fixed share of the postings, and
narrow and wide regions. The cost of deletions (c4) is the time to mark them in a segment.

A subscription of `knn` is searched as a region of `range` is, so both kinds have the same costs, but one: its match is
a candidate that is tested against a circle and divided by bucket, not a row that is written.

Source: PS2Stream section IV-A, which does not say how its constants were found.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.optimize import nnls

from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import sum_column
from pststream.base.progress import Progress, Steps, no_progress
from pststream.engine.running_engine import runs_elsewhere
from pststream.matching.segments import build_deletions, build_segment, deleted_pieces, merge_deletions
from pststream.pipeline.batch.match_task import WorkerReport
from pststream.pipeline.batch.micro_batch import match, match_and_discard
from pststream.pipeline.calibrate.synthetic_homes import (
    EVERYTHING,
    START,
    QueryWords,
    SyntheticHome,
    clause_lists,
    draw_knn,
    index_table,
    with_cache,
)
from pststream.pipeline.planning.plan import plan
from pststream.pipeline.replan.compare_planners import Trial
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.random_texts import PowerLaw
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, synthetic_subscriptions

LATER = 1_000
"""Objects of the batch after the first answers, which writes their circles to the index."""


def draw_tw14(count: int, seed: int) -> SyntheticObjects:
    """Draw objects as those of TW14 of SSTD (section 7), whose data are not at hand."""
    return synthetic_objects(count, seed, vocabulary=PowerLaw(800_000, shift=20.0), terms_per_object=10.0)


class KnnStyle(NamedTuple):
    """How `knn` queries are drawn: a name, the least and the greatest k, their words."""

    name: str
    k: tuple[int, int]
    words: QueryWords


def measure_knn(
    style: KnnStyle,
    sizes: tuple[int, int],
    plans: Sequence[tuple[str, int]],
    rounds: int,
    seed: int,
    settings: Settings,
    steps: Steps,
) -> list[np.ndarray]:
    """Measure the search of standing `knn` queries under several plans in one home; return the points of each plan.

    sizes  subscriptions, objects
    plans  planner and number of workers of each

    Points are float64[workers, 5], of workers that received objects: the objects, the stored pieces, the postings read,
    the candidates, and the CPU seconds, the least of the rounds. The objects are those that the answers were computed
    from; they are matched with the circles of these.
    """
    subscriptions, objects = sizes
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = SyntheticHome(f"{folder}/home", seed, no_progress, draw_tw14)
        settings = replace(with_cache(Path(folder, "cache"), settings), max_candidates=EVERYTHING)
        bench.add_objects(objects)
        queries = draw_knn(draw_tw14(objects, seed), subscriptions, style.k, style.words, seed)
        bench.add_insertions(subscriptions, queries, 0, START)
        match(bench.home, settings, max_objects=EVERYTHING, one=True)
        bench.add_objects(LATER)
        match(bench.home, settings, max_objects=EVERYTHING, one=True)
        points = []
        for planner, workers in plans:
            chosen = replace(settings, planner=planner, planner_options="", workers=workers)
            version = plan(bench.home, chosen)["plan_version"]
            searches = [match_and_discard(bench.home, chosen, version, slice(None)) for _ in range(rounds + 1)]
            points.append(_knn_points(searches[1:]))  # the first search builds the segments
            steps.end(f"knn, {style.name}, {planner} over {workers} workers")
    return points


def _knn_points(searches: list[list[WorkerReport]]) -> np.ndarray:
    """Return the points of the searches of one plan, which differ in their CPU seconds alone, and in their order."""
    searches = [sorted(search, key=lambda report: report.worker) for search in searches]
    seconds = np.min([[report.cpu_seconds for report in search] for search in searches], axis=0)
    (*_, last) = searches
    work = [
        (
            report.objects,
            report.subscriptions,
            *(sum(sum_column(units, name) for units in report.units) for name in ("candidates", "matches")),
        )
        for report in last
    ]
    received = np.array([objects > 0 for objects, *_ in work])
    return np.column_stack([np.array(work, np.float64), seconds])[received]


SIZES = {"small": (50_000, 50_000), "full": (1_000_000, 500_000)}
PLANS = (("kd_tree", 2), ("kd_tree", 8), ("grid", 4), ("grid", 16))
STYLES = (
    SubscriptionStyle("q1", "or", frequent_share=0.3),
    SubscriptionStyle("q2", "or", frequent_share=0.3),
    SubscriptionStyle("q1", "and", frequent_share=0.45),
)
KNN_SIZES = {"small": (10_000, 10_000), "full": (100_000, 100_000)}
KNN_STYLES = (
    KnnStyle("narrow circles, keywords joined by or", (1, 10), QueryWords(5)),
    KnnStyle("wide circles, keywords joined by or", (20, 40), QueryWords(5)),
    KnnStyle("two keywords joined by and", (1, 10), QueryWords(2, 2, all_needed=True)),
)
KINDS = ("range", "knn")
ROUNDS = 4
LEAST_SHARE = 1 / 64
"""Least cost of a posting as a share of a match: the sample counts a match in postings, so it must not be zero."""


def calibrate(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the settings `cost_*`, and how well they predict the load of workers for each kind; return the figures.

    Prediction is cross-validated: the load of each workload and plan is predicted by constants fitted to all others.
    knn_by_range_... predicts `knn` by constants fitted to `range` alone, as if a candidate cost as much as a match.
    least_..., greatest_...: the cost of a match in the fits of the cross-validation.
    """
    if runs_elsewhere(settings):  # the homes are on the disk of this machine
        settings = replace(settings, engine="local")
    steps = Steps(progress, (len(STYLES) + len(KNN_STYLES)) * len(PLANS))
    trials = [trial for style in STYLES for trial in _run_trials(scale, seed, style, settings, steps, progress)]
    of_range = [_points(trial) for trial in trials]
    of_knn = [
        points
        for style in KNN_STYLES
        for points in measure_knn(style, KNN_SIZES[scale], PLANS, ROUNDS, seed, settings, steps)
    ]
    insert = sum(trial.build_seconds for trial in trials) / float(sum(points[:, 1].sum() for points in of_range))
    fitted = fit_kinds(of_range, of_knn)
    return {
        "cost_insert": insert,
        "cost_delete": _deletion(seed),
        **{name: round(value, 4) if name.split("_")[0] in KINDS else value for name, value in fitted.items()},
    }


def fit_kinds(of_range: list[np.ndarray], of_knn: list[np.ndarray]) -> dict[str, Any]:
    """Fit the costs of pairs, objects, postings and matches, those of matches by kind; predict the points.

    of_range, of_knn  points of each workload and plan: float64[workers, 5], as `_points` returns them
    """
    groups = of_range + of_knn
    group = np.repeat(np.arange(len(groups)), [len(points) for points in groups])
    is_knn = group >= len(of_range)
    sent, stored, read, matched, cpu = np.concatenate(groups).T
    terms = np.column_stack([sent * stored, sent, read, matched])
    check, handle, posting, match, match_knn = _fit(terms, cpu, is_knn)
    predicted, folds = _cross_validate(terms, cpu, is_knn, group)
    by_range = terms @ [check, handle, posting, match]
    return {
        "cost_check": float(check),
        "cost_object": float(handle),
        "cost_posting": float(max(posting, max(match, match_knn) * LEAST_SHARE)),
        "cost_match": float(match),
        "cost_match_knn": float(match_knn),
        "least_match": float(folds[:, 3].min()),
        "greatest_match": float(folds[:, 3].max()),
        "least_match_knn": float(folds[:, 4].min()),
        "greatest_match_knn": float(folds[:, 4].max()),
        "points": len(cpu),
        **_compare("range", predicted[~is_knn], cpu[~is_knn]),
        **_compare("knn", predicted[is_knn], cpu[is_knn]),
        **_compare("knn_by_range", by_range[is_knn], cpu[is_knn]),
    }


def _compare(name: str, predicted: np.ndarray, cpu: np.ndarray) -> dict[str, float]:
    """Return how well seconds are predicted."""
    total = float(predicted.sum() / cpu.sum())
    return {
        f"{name}_correlation": float(np.corrcoef(predicted, cpu)[0, 1]),
        f"{name}_total_over_measured": total,
        f"{name}_total_error": abs(total - 1),
    }


def _run_trials(
    scale: str, seed: int, style: SubscriptionStyle, settings: Settings, steps: Steps, progress: Progress
) -> list[Trial]:
    """Match the same objects under each of PLANS, round after round."""
    subscriptions, objects = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = SyntheticHome(f"{folder}/home", seed, progress)
        bench.add_subscriptions(subscriptions, style)
        bench.add_objects(objects)
        trials: list[Trial] = []
        for planner, workers in PLANS:
            chosen = replace(settings, workers=workers, cache_dir=f"{folder}/cache")
            trials.append(Trial(bench.home, chosen, planner, objects, f"{folder}/trial-{len(trials)}"))
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


def _fit(terms: np.ndarray, cpu: np.ndarray, is_knn: np.ndarray) -> np.ndarray:
    """Fit the cost of each term to the points of `range`, then the cost of a match of `knn` to those of `knn`.

    Errors are relative, so that small workers count as much as large ones. In a joint fit the postings of `knn`, which
    have few matches, would set the costs that a posting and a match of `range` share.

    terms  float64[points, 4]: pairs, objects, postings, matches

    Returns float64[5], seconds: the cost of each term, and of a match of `knn`.
    """
    shared, _ = nnls(terms[~is_knn] / cpu[~is_knn, None], np.ones(np.count_nonzero(~is_knn)))
    shares = terms[is_knn] / cpu[is_knn, None]
    rest, matched = 1.0 - shares[:, :3] @ shared[:3], shares[:, 3]
    return np.append(shared, max(float(matched @ rest / (matched @ matched)), 0.0))


def _cross_validate(
    terms: np.ndarray, cpu: np.ndarray, is_knn: np.ndarray, group: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predict the seconds of each point from costs fitted to the points of the other groups.

    Returns the seconds, and the costs that were fitted without each group: float64[groups, 5].
    """
    predicted, folds = np.empty(len(cpu)), []
    for left_out in distinct_values(group):
        mine = group == left_out
        folds.append(_fit(terms[~mine], cpu[~mine], is_knn[~mine]))
        costs = np.append(folds[-1][:3], folds[-1][4 if is_knn[mine][0] else 3])
        predicted[mine] = terms[mine] @ costs
    return predicted, np.array(folds)


def _deletion(seed: int) -> float:
    """Measure the seconds to mark one deletion in a segment."""
    drawn = synthetic_subscriptions(200_000, seed, synthetic_objects(20_000, seed), STYLES[0])
    segment = build_segment(index_table(drawn, clause_lists(drawn)))
    rows = pa.table({"subscription_key": segment.subscription_keys[::10], "end_at": segment.validity[::10, 1]})
    began = time.thread_time()
    for _ in range(5):
        deleted_pieces(segment, *merge_deletions([build_deletions(rows)]))
    return (time.thread_time() - began) / (5 * rows.num_rows)
