"""The benchmark of DkM-SKS's imbalance: circles around the nearest objects, and the shares of what workers do."""

import numpy as np
import pytest

from benchmarks.scenarios.plans import dkm_imbalance
from benchmarks.scenarios.plans.dkm_imbalance import Searched, describe_search
from benchmarks.support.answers import nearest_circles
from benchmarks.support.answers.nearest_circles import draw_pieces, store_objects
from pststream.pipeline.calibrate.measured_homes import STREAMS, QueryWords
from pststream.queries.shapes.contract import haversine_m
from pststream.workloads.synthetic_arrays import SyntheticObjects, term_ids
from tests.counted_benchmark import run_counted


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
