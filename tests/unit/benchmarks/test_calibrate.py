"""The fit of the cost model's constants, and the measured work of `knn` that it is fitted to."""

import numpy as np
import pytest

from pststream.base.progress import Steps, no_progress
from pststream.pipeline.batch.match_task import WorkerReport
from pststream.pipeline.calibrate.calibrate import KNN_STYLES, _knn_points, fit_kinds, measure_knn
from pststream.settings import Settings

pytestmark = pytest.mark.deep

COSTS = (1e-13, 4e-7, 6e-9)
OF_MATCH = {"range": 3e-9, "knn": 9e-8}


def draw_groups(kind: str, noise: float = 0.0) -> list[np.ndarray]:
    """Draw the points of 12 plans, of which the seconds follow from the costs."""
    rng = np.random.default_rng([29, len(kind)])
    groups = []
    for workers in (2, 4, 8) * 4:
        sent, stored = rng.integers(1_000, 50_000, workers), rng.integers(1_000, 50_000, workers)
        read = sent * rng.uniform(5, 100)
        matched = read * rng.uniform(0.1, 0.5)
        terms = np.column_stack([sent * stored, sent, read, matched])
        seconds = terms @ (*COSTS, OF_MATCH[kind]) * rng.normal(1.0, noise, workers)
        groups.append(np.column_stack([sent, stored, read, matched, seconds]))
    return groups


def test_costs_are_found_and_those_of_matches_by_kind() -> None:
    fitted = fit_kinds(draw_groups("range"), draw_groups("knn"))
    names = ("cost_check", "cost_object", "cost_posting", "cost_match", "cost_match_knn")
    assert [fitted[name] for name in names] == pytest.approx([*COSTS, *OF_MATCH.values()], rel=1e-4)
    assert fitted["points"] == 2 * 4 * (2 + 4 + 8)
    for kind in OF_MATCH:
        assert fitted[f"{kind}_correlation"] == pytest.approx(1.0)
        assert fitted[f"{kind}_total_over_measured"] == pytest.approx(1.0) and fitted[f"{kind}_total_error"] < 1e-6
    assert fitted["knn_by_range_total_over_measured"] < 0.6
    assert fitted["knn_by_range_total_error"] == pytest.approx(1 - fitted["knn_by_range_total_over_measured"])


def test_the_fits_without_a_group_show_the_noise() -> None:
    fitted = fit_kinds(draw_groups("range", 0.1), draw_groups("knn", 0.1))
    assert fitted["least_match_knn"] < fitted["cost_match_knn"] < fitted["greatest_match_knn"]
    assert fitted["greatest_match_knn"] == pytest.approx(OF_MATCH["knn"], rel=0.2)
    assert fitted["greatest_match"] < fitted["least_match_knn"]


def test_each_candidate_is_counted_at_one_worker_of_every_plan() -> None:
    steps = Steps(no_progress, 3)
    settings = Settings(max_ahead_seconds=0, engine="local")
    for style in KNN_STYLES:
        plans = (("kd_tree", 1), ("grid", 3), ("keyword_hash", 2))
        groups = measure_knn(style, (200, 300), plans, 1, 1, settings, steps)
        one, *others = groups
        assert len(one) == 1 and all(1 < len(group) <= workers for group, (_, workers) in zip(others, plans[1:]))
        for group in groups:
            sent, stored, read, matched, seconds = group.T
            assert matched.sum() == one[0, 3] > 0 and (read >= matched).all()
            assert sent.sum() >= one[0, 0] > 0 and stored.sum() >= one[0, 1]
            assert (seconds > 0).all()


def test_the_least_seconds_are_those_of_the_same_worker_in_any_order() -> None:
    """An engine returns the reports of workers in no order."""
    seconds = {0: (5.0, 4.0), 1: (1.0, 2.0)}
    first, second = (
        {worker: WorkerReport(worker, 7, [], 3 + worker, 0, of_worker[search]) for worker, of_worker in seconds.items()}
        for search in (0, 1)
    )
    points = _knn_points([[first[0], first[1]], [second[1], second[0]]])
    assert points[:, 0].tolist() == [3.0, 4.0] and points[:, 4].tolist() == [4.0, 1.0]
