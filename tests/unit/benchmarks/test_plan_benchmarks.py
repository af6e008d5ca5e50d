"""The benchmarks of planners, plans and adjustments run, and their figures hang together."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.region_curve import regions_in_half
from benchmarks.scenarios.plans import (
    dkm_imbalance,
    paper_model,
    phase_one,
    placing,
    planner_options,
    planner_sweeps,
    standing_planners,
)
from benchmarks.scenarios.plans.adjust import SIDE, crowd_objects
from benchmarks.scenarios.plans.dkm_imbalance import Searched, describe_search
from benchmarks.scenarios.plans.planners import choose_figures
from benchmarks.scenarios.plans.standing_planners import draw_mixed
from benchmarks.support.answers import nearest_circles
from benchmarks.support.answers.nearest_circles import draw_pieces, store_objects
from benchmarks.support.measured_homes import STREAMS, BenchHome
from benchmarks.support.paper_workloads import describe_workload
from benchmarks.support.sweeps import sstd, tornado
from benchmarks.support.sweeps.workloads import Trial, Workload
from pststream.base.progress import no_progress
from pststream.pipeline.calibrate.synthetic_homes import QueryWords
from pststream.queries.shapes.contract import haversine_m
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, term_ids
from tests.counted_benchmark import run_counted

pytestmark = pytest.mark.deep


def test_planners_are_judged_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(paper_model.SIZES, "small", (600, 600, 2))
    monkeypatch.setattr(paper_model, "VOCABULARIES", (5_000,))
    figures = run_counted("paper-model")["figures"]
    for case in paper_model.list_cases():
        for name in paper_model.PLANNERS:
            total, greatest = figures[f"{case}_{name}_total"], figures[f"{case}_{name}_greatest"]
            assert total[1] <= total[0] <= total[2]
            assert greatest[1] <= total[1] <= paper_model.WORKERS * greatest[1] * 1.001
            assert figures[f"{case}_{name}_imbalance"][1] >= 1
        assert figures[f"{case}_hypergraph_total"][1] == figures[f"{case}_hypergraph_total"][2], "of one seed"


def test_more_blocks_balance_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planner_options.SIZES, "small", (600, 600, 2))
    figures = run_counted("planner-options")["figures"]
    more_blocks = [figures[f"q3_and_grid_blocks_{blocks}_greatest"][0] for blocks in (16, 128)]
    assert more_blocks[1] <= more_blocks[0]


def test_moves_of_phase_one_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(phase_one.SIZES, "small", (1_000, 1_000))
    monkeypatch.setattr(phase_one, "PLANNERS", ("grid",))
    figures = run_counted("phase-one")["figures"]
    acted = [value for name, value in figures.items() if name.endswith("_phase_one_moves")]
    assert figures["calls"] == len(acted) == 8
    assert figures["calls_in_which_phase_one_acts"] == sum(moves > 0 for moves in acted)


def test_deletions_take_subscriptions_whose_lifetime_ends_first(tmp_path) -> None:
    bench = BenchHome(str(tmp_path / "home"), 5, no_progress)
    bench.add_subscriptions(1_000, SubscriptionStyle())
    first = bench.live.copy()
    bench.add_subscriptions(300, SubscriptionStyle(), delete=300)
    assert len(bench.live) == 1_000
    gone = np.flatnonzero(~np.isin(first, bench.live))
    assert len(gone) == 300
    assert 0 < gone.max() - 299 < 900, "not the oldest alone, as lifetimes differ, but mostly these"
    assert np.median(gone) < 400


def test_a_workload_is_said_in_full() -> None:
    text = describe_workload(SubscriptionStyle("q2", "or"), "no requests")
    assert text == "Q2, 1 to 3 keywords joined by OR, frequent_share 1 (as the paper), 200,000 words, no requests"


def _points(paper: str) -> dict[str, tuple[str, ...]]:
    """Return the planners of each point."""
    listed = [item for workload in planner_sweeps.SWEEPS[paper]() for item in workload.trials.items()]
    points = {point: trial.planners for point, trial in listed}
    assert len(points) == len(listed)
    return points


def test_the_sweeps_are_those_of_the_papers() -> None:
    assert {"workers_4", "workers_100", "cells_500", "side_0.0005", "side_0.015", "frequent_0"} < set(
        _points("tornado")
    )
    space = tornado.SPACE_KM
    assert tornado.make_style(side=0.015).side_km == (0.015 * space, 0.015 * space)
    assert 2_000 < space < 3_500
    assert {"theta_32", "theta_64", "theta_256", "area_0.0001%", "area_1%", "keywords_3"} < set(_points("sstd"))
    side = sstd.make_style(area=1.0).side_km
    assert side is not None and side[0] ** 2 == pytest.approx(0.01 * sstd.SPACE_KM2)
    times = [workload.times for workload in sstd.list_workloads()]
    assert max(times) / min(times) == 20  # 10,000,000 over 500,000


def test_figures_have_a_number_for_the_imbalance_with_an_idle_worker() -> None:
    plan = {"throughput": 7, "imbalance": None, "model_imbalance": 1.5, "model_correlation": None, "copies": 1.0}
    figures = choose_figures(plan, ("throughput", "imbalance", "model_imbalance", "model_correlation"))
    assert figures == {"throughput": 7, "imbalance": 1e9, "model_imbalance": 1.5, "model_correlation": None}


def test_each_point_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planner_sweeps.SIZES, "small", (400, 400, 1))
    style = sstd.make_style(area=1.0)
    trials = {"theta_4": Trial(2, ("quadtree", "text"), "theta=4"), "theta_64": Trial(2, ("quadtree", "text"))}
    sweeps = {"sstd": lambda: iter([Workload(style, trials, 2.0, sstd.StreamObjects())])}
    monkeypatch.setattr(planner_sweeps, "SWEEPS", sweeps)
    document = run_counted("planner-sweeps")
    figures = document["figures"]
    for point in trials:
        assert figures[f"sstd_{point}_quadtree_copies"] == 1  # each cell belongs to one worker
        assert figures[f"sstd_{point}_text_copies"] == 1  # each object goes to one worker
        assert figures[f"sstd_{point}_text_subscriptions_stored"] == 2 * 840  # 40 come with the objects
        assert 840 <= figures[f"sstd_{point}_quadtree_subscriptions_stored"] < 2 * 840


def test_each_size_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(placing.SIZES, "small", (100, 300))
    monkeypatch.setattr(placing, "BATCHES", 1)
    monkeypatch.setattr(placing, "INSERTIONS", 50)
    monkeypatch.setattr(placing, "OBJECTS", 50)
    document = run_counted("placing")
    figures, floor = document["figures"], document["floor"]
    assert list(floor) == ["cpu_seconds_at_100", "cpu_seconds_at_300"]
    assert min(floor.values()) > 0
    expected = figures["cpu_seconds_at_300"] / figures["cpu_seconds_at_100"]
    assert figures["growth"] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [({100: 60.0}, 50), ({100: 20.0, 300: 40.0}, 200), ({100: 20.0}, 100), ({100: 40.0, 200: 35.0}, 75)],
)
def test_regions_in_half_a_minute(seconds: dict[int, float], expected: int) -> None:
    assert regions_in_half("1m", seconds) == expected


def words_of(objects: SyntheticObjects, number: int) -> set[int]:
    return set(term_ids(objects.terms[objects.term_offsets[number] : objects.term_offsets[number + 1]]).tolist())


def test_a_circle_reaches_the_kth_nearest_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_circles, "PART", 15)
    stored, source = STREAMS["place"].draw(400, 1), STREAMS["place"].draw(50, 2)
    pieces = draw_pieces(store_objects(stored), source, 40, (2, 2), QueryWords(5), 3).to_pylist()
    assert [piece["subscription_key"] for piece in pieces] == list(range(40))
    worlds = 0
    for piece in pieces:
        (words,) = map(set, piece["clauses"])
        shared = [number for number in range(400) if words & words_of(stored, number)]
        if piece["circle"] is None:
            assert len(shared) < 2 and piece["east"] - piece["west"] == 360
            worlds += 1
            continue
        lon, lat, radius = piece["circle"]
        distances = sorted(haversine_m(lon, lat, stored.lon[number], stored.lat[number]) for number in shared)
        assert radius == pytest.approx(distances[1], rel=1e-5, abs=0.1)
    assert 0 < worlds < 40


def test_shares_are_of_averages_over_time_stamps() -> None:
    least = np.array([[4.0, 2.0], [2.0, 4.0]]) / 1e3
    searched = Searched(np.stack([least, least * 1.5]), np.array([[10, 10], [10, 10]]), np.array([[6, 3], [3, 6]]))
    figures = describe_search(searched)
    assert (figures["slowest_ms"], figures["imbalance_ms"]) == (4.0, 2.0)
    assert (figures["imbalance_share"], figures["lasting_imbalance_share"]) == (0.5, 0.0)
    assert figures["noise_share"] == 0.5
    assert (figures["postings_share"], figures["pairs_share"], figures["lasting_pairs_share"]) == (0.0, 0.5, 0.0)


def test_every_plan_finds_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dkm_imbalance.SIZES, "small", (200, 400))
    monkeypatch.setitem(dkm_imbalance.STORED, "small", 500)
    monkeypatch.setattr(dkm_imbalance, "WORKERS", 3)
    figures = run_counted("dkm-imbalance")["figures"]
    for size in (200, 400):
        pairs = {figures[f"{name}_at_{size}_pairs_per_object"] for name in dkm_imbalance.PLANS}
        assert len(pairs) == 1 and pairs.pop() > 0
        for name in dkm_imbalance.PLANS:
            for work in ("imbalance", "postings", "pairs"):
                assert 0 <= figures[f"{name}_at_{size}_{work}_share"] <= 1
                assert 0 <= figures[f"{name}_at_{size}_lasting_{work}_share"] <= 1


def test_a_mix_has_a_third_of_each() -> None:
    tables = draw_mixed(STREAMS["tw14"].draw(200, 1), 90, 1)
    kinds = Counter(kind for columns in tables for kind in columns["kind"].to_pylist())
    assert kinds == {"knn": 30, "range": 60}
    assert [columns.get("keywords") is not None for columns in tables] == [False, False, True]


def test_each_planner_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(standing_planners.SIZES, "small", (300, 300, 100))
    monkeypatch.setattr(standing_planners, "WORKERS", 3)
    stream, draw, _ = standing_planners.WORKLOADS["mixed"]
    planners = ("kd_tree", "dkm_sks", "auto")
    monkeypatch.setattr(standing_planners, "WORKLOADS", {"mixed": (stream, draw, planners)})
    figures = run_counted("planners-standing")["figures"]
    for planner in planners:
        assert figures[f"mixed_{planner}_throughput"] > 0
        for share in ("imbalance_share", "sent_share", "postings_share"):
            assert 0 <= figures[f"mixed_{planner}_{share}"] <= 1
        assert figures[f"mixed_{planner}_slowest_ms"] <= figures[f"mixed_{planner}_total_ms"]
        assert figures[f"mixed_{planner}_changes_per_object"] > 0
        assert figures[f"mixed_{planner}_model_total_ms"] > 0
        assert figures[f"mixed_{planner}_pieces"] >= 1
    least = min(figures[f"mixed_{planner}_slowest_ms"] for planner in ("kd_tree", "dkm_sks"))
    assert figures["mixed_auto_over_best"] == pytest.approx(figures["mixed_auto_slowest_ms"] / least, abs=0.01)


def things(objects: SyntheticObjects) -> list[tuple[float, float, tuple[int, ...]]]:
    """Return place and words of each object."""
    words = np.split(objects.terms, objects.term_offsets[1:-1])
    return list(zip(objects.lon.tolist(), objects.lat.tolist(), (tuple(one.tolist()) for one in words), strict=True))


def test_a_share_of_the_objects_is_replaced_by_those_of_one_region() -> None:
    area, drawn = synthetic_objects(5_000, 1), synthetic_objects(2_000, 2)
    before, after, of_area = things(drawn), things(crowd_objects(drawn, area, 0.6, 1)), set(things(area))
    added = [new for old, new in zip(before, after, strict=True) if new != old]
    assert len(added) == pytest.approx(1_200, rel=0.1) and set(added) <= of_area
    for axis, values in enumerate((area.lon, area.lat)):
        places = [thing[axis] for thing in added]
        assert 0 < max(places) - min(places) <= SIDE * (values.max() - values.min())


def test_no_object_is_replaced_without_a_share() -> None:
    area, drawn = synthetic_objects(500, 1), synthetic_objects(200, 2)
    assert things(crowd_objects(drawn, area, 0.0, 1)) == things(drawn)
