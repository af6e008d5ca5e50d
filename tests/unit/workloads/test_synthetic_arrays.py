"""Synthetic arrays, and the functions that generator and benchmarks share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.arrays import hash_integers, hash_to_unit
from pststream.base.errors import UsageError
from pststream.workloads.draw_subscriptions import (
    REGIONS,
    SubscriptionStyle,
    draw_keywords,
    draws_q2,
    region_of,
    square_boxes,
)
from pststream.workloads.places import KM_PER_DEGREE, USA_BOUNDS, wrap
from pststream.workloads.random_texts import PowerLaw, area_of, topic_terms
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, synthetic_subscriptions, term_ids


@pytest.fixture(scope="module")
def objects() -> SyntheticObjects:
    return synthetic_objects(20_000, 1)


def test_objects_are_csr_arrays(objects: SyntheticObjects) -> None:
    assert objects.term_offsets[0] == 0 and objects.term_offsets[-1] == len(objects.terms)
    inside = np.ones(len(objects.terms), dtype=bool)
    inside[objects.term_offsets[:-1]] = False
    assert (np.diff(objects.terms, prepend=0)[inside] > 0).all()
    assert (np.diff(objects.term_offsets) >= 1).all()
    assert 8.5 < len(objects.terms) / 20_000 < 9.2
    west, south, east, north = USA_BOUNDS
    assert (objects.lon > west - 3).all() and (objects.lon < east + 3).all()
    assert (objects.lat > south - 3).all() and (objects.lat < north + 3).all()


def test_same_seed_same_arrays(objects: SyntheticObjects) -> None:
    again, other = synthetic_objects(20_000, 1), synthetic_objects(20_000, 2)
    assert (again.terms == objects.terms).all() and (again.lon == objects.lon).all()
    assert not np.array_equal(other.lon, objects.lon)
    one, two = (synthetic_subscriptions(1_000, 1, objects) for _ in range(2))
    assert (one.boxes == two.boxes).all() and (one.terms == two.terms).all()


def test_subscriptions_are_clauses(objects: SyntheticObjects) -> None:
    found = synthetic_subscriptions(9_000, 1, objects, SubscriptionStyle("q2"))
    clauses, terms = np.diff(found.clause_offsets), np.diff(found.term_offsets)
    assert len(found.boxes) == 9_000 and len(terms) == clauses.sum() and len(found.terms) == terms.sum()
    assert set(np.unique(clauses)) == {1, 2, 3} and set(np.unique(terms)) == {1, 2, 3}
    assert (terms[found.clause_offsets[:-1][clauses > 1]] == 1).all()
    frequency = np.bincount(objects.terms, minlength=objects.vocabulary.size)
    least = np.minimum.reduceat(frequency[found.terms], found.term_offsets[found.clause_offsets[:-1]])
    assert (least <= np.sort(frequency)[-(objects.vocabulary.size // 100)]).all()
    assert (found.boxes[:, 0] < found.boxes[:, 2]).all() and (found.boxes[:, 1] < found.boxes[:, 3]).all()


def test_connectives_and_rare_words(objects: SyntheticObjects) -> None:
    both, all_and = (synthetic_subscriptions(3_000, 1, objects, SubscriptionStyle(connective=c)) for c in ("or", "and"))
    assert (np.diff(both.clause_offsets) == 1).all() and (np.diff(all_and.term_offsets) == 1).all()
    rare = synthetic_subscriptions(3_000, 1, objects, SubscriptionStyle(frequent_share=0.0))
    assert np.median(rare.terms) > 20 * np.median(all_and.terms)


@pytest.mark.parametrize("bad", [{"kind": "q9"}, {"connective": "xor"}, {"keywords": (0, 2)}, {"keywords": (3, 2)}])
def test_invalid_styles_are_errors(bad: dict) -> None:
    with pytest.raises(UsageError):
        SubscriptionStyle(**bad)


def test_ids_are_fixed_and_distinct() -> None:
    ids = term_ids(np.arange(200_000, dtype=np.int32))
    assert len(np.unique(ids)) == 200_000 and ids.dtype == np.int64
    assert ids[:2].tolist() == [-2152535657050944081, 7960286522194355700]
    assert hash_to_unit(ids).min() >= 0 and 0.49 < hash_to_unit(ids).mean() < 0.51
    assert (hash_integers(np.arange(100)) != hash_integers(np.arange(100), 1)).all()


def test_power_law() -> None:
    law = PowerLaw(1_000, 1.0, 5.0)
    ranks = law.ranks(np.random.default_rng(1).random(200_000))
    count = np.bincount(ranks, minlength=1_000)
    assert count[0] / count[94] == pytest.approx(100 / 6, rel=0.2)
    assert law.ranks(np.array([0.0, np.nextafter(1.0, 0)])).tolist() == [0, 999]


def test_topics_are_of_the_area() -> None:
    law = PowerLaw(10_000)
    areas = area_of(np.array([0.1, 0.2, 180.0, -180.0]), np.array([0.1, 0.2, 90.0, 90.0]))
    assert areas[0] == areas[1] and areas[2] == areas[3]
    unit = np.full(4, 0.5)
    first = topic_terms(areas, unit, law, 1)
    assert first[0] == first[1] and first[2] == first[3] and first[0] != first[2]
    assert (topic_terms(areas, unit, law, 2) != first).any()
    assert (topic_terms(np.arange(5_000), np.random.default_rng(1).random(5_000), law, 1) >= 50).all()


@given(st.floats(-180, 180), st.floats(-90, 90), st.floats(1, 100))
def test_squares_hold_their_centre(lon: float, lat: float, side: float) -> None:
    west, south, east, north = square_boxes(np.array([lon]), np.array([lat]), np.array([side]))[0]
    assert -180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= lat <= north <= 90
    assert west <= lon <= east or (west > east and (lon >= west or lon <= east))
    if abs(lat) < 80:
        assert (north - south) * KM_PER_DEGREE == pytest.approx(side)
        width = (east - west) % 360 * KM_PER_DEGREE * np.cos(np.radians(lat))
        assert width == pytest.approx(side, rel=1e-6)


def test_squares_at_the_ends_of_the_earth() -> None:
    boxes = square_boxes(np.array([179.9, 0.0, 12.0]), np.array([0.0, 89.9, -89.99]), np.array([100.0, 50.0, 50.0]))
    assert boxes[0, 0] > 179 and boxes[0, 2] < -179
    assert boxes[1].tolist()[0::2] == [-180, 180] and boxes[1, 3] == 90
    assert boxes[2].tolist()[0::2] == [-180, 180] and boxes[2, 1] == -90
    assert wrap(np.array([-180.0, 180.0, 190.0, -200.0])).tolist() == [-180.0, 180.0, -170.0, 160.0]


def test_keywords_are_distinct_and_rare_if_required() -> None:
    rng = np.random.default_rng(1)
    occurrences = np.array([0, 0, 0, 0, 1, 1, 2, 3], dtype=np.int32)
    wanted = rng.integers(1, 4, 2_000)
    found = draw_keywords(rng, wanted, occurrences, 4, np.full(2_000, 2))
    assert (found.max(axis=1) >= 2).all()
    assert ((found >= 0).sum(axis=1) <= wanted).all()
    repeated = (found[:, 1:] == found[:, :-1]) & (found[:, 1:] >= 0)
    assert not repeated.any() and (np.diff(found, axis=1) >= 0).all()
    alone = draw_keywords(rng, np.full(50, 3), np.zeros(1, dtype=np.int32), 1, np.zeros(50, dtype=np.int64))
    assert ((alone >= 0).sum(axis=1) == 1).all()


def test_a_tenth_of_the_regions_drifts() -> None:
    q2_regions = [draws_q2(1, interval) for interval in range(4)]
    assert all(np.array_equal(draws_q2(1, interval), q2_regions[interval]) for interval in (3, 1, 2, 0, 3))
    assert 25 < q2_regions[0].sum() < 75
    assert [(a != b).sum() for a, b in zip(q2_regions, q2_regions[1:])] == [10, 10, 10]
    lon, lat = np.random.default_rng(1).uniform(0, 10, (2, 5_000))
    regions = region_of(lon, lat, (0.0, 0.0, 10.0, 10.0))
    assert set(regions) == set(range(REGIONS))
    assert region_of(np.array([-5.0, 50.0]), np.array([-5.0, 50.0]), (0.0, 0.0, 10.0, 10.0)).tolist() == [0, 99]
