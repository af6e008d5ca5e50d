"""Pieces of `knn` subscriptions contain every object that is not farther than the threshold."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.kernels.questions.codes import distances_m
from pststream.pipeline.answers.index_thresholds import make_pieces
from pststream.pipeline.answers.standing_queries import Queries
from pststream.plans.pieces import number_pieces
from pststream.queries.shapes.circle import contains
from pststream.queries.shapes.contract import Region

LONS = st.sampled_from((-180.0, -179.999, -90.0, 0.0, 18.07, 179.999, 180.0)) | st.floats(-180, 180)
LATS = st.sampled_from((-90.0, -89.9999, -45.0, 0.0, 59.33, 89.9999, 90.0)) | st.floats(-90, 90)


def queries_at(points: np.ndarray, window_micros: int = 0) -> Queries:
    """Return queries at points, each for one word."""
    count = len(points)
    numbers, zeros = np.arange(count), np.zeros(count, np.int64)
    return Queries(
        key=numbers,
        kind=zeros.astype(np.int8),
        numbers=points,
        k=zeros + 1,
        window_micros=zeros + window_micros,
        window_objects=zeros,
        created_at=numbers * 10,
        expires_at=numbers + 1000,
        clause_offsets=np.arange(count + 1),
        literal_offsets=np.arange(count + 1),
        terms=numbers + 7,
    )


def has(pieces: list[dict], lon: float, lat: float) -> bool:
    """Whether one of the pieces contains a point."""
    return any(
        row["west"] <= lon <= row["east"]
        and row["south"] <= lat <= row["north"]
        and (row["circle"] is None or contains(Region((), "circle", tuple(row["circle"])), lon, lat))
        for row in pieces
    )


@settings(max_examples=200, deadline=None)
@given(LONS, LATS, LONS, LATS)
def test_an_object_at_the_threshold_lies_in_the_pieces(lon: float, lat: float, x: float, y: float) -> None:
    point, place = np.array([[lon, lat]]), np.array([[x, y]])
    threshold = distances_m(point, place).astype(np.float32)
    assert has(make_pieces(queries_at(point), threshold).to_pylist(), x, y)


def test_pieces_have_the_clauses_and_the_validity_of_their_subscriptions() -> None:
    points = np.array([[180.0, 0.0], [0.0, 0.0], [10.0, 10.0]])
    thresholds = np.array([1000.0, np.inf, 5.0], np.float32)
    pieces = make_pieces(queries_at(points), thresholds).to_pylist()
    assert [row["subscription_key"] for row in pieces] == [0, 0, 1, 2]  # the first crosses the antimeridian
    assert [row["clauses"] for row in pieces] == [[[7]], [[7]], [[8]], [[9]]]
    assert [(row["created_at"], row["end_at"]) for row in pieces] == [(0, 1000), (0, 1000), (10, 1001), (20, 1002)]
    assert {row["kind"] for row in pieces} == {"knn"}
    assert pieces[2]["circle"] is None and has(pieces[2:3], 90.0, 90.0)
    assert {row["created_at"] for row in make_pieces(queries_at(points, 60), thresholds).to_pylist()} == {-(2**63)}


def test_pieces_of_different_thresholds_are_different_pieces() -> None:
    """Migrations know a piece by its subscription and its south-western corner, and copy it once."""
    points = np.array([[0.0, -90.0], [0.0, -89.0], [0.0, 90.0], [180.0, 0.0], [5.0, 50.0]])
    for some, others in ((1000.0, 2000.0), (2e5, 3e6), (1.9e7, np.inf), (2.1e7, np.inf)):
        both = [make_pieces(queries_at(points), np.full(5, radius, np.float32)) for radius in (some, others)]
        one, other = number_pieces(*both)
        rows = dict(zip(one.tolist(), both[0].to_pylist()))
        for number, row in zip(other.tolist(), both[1].to_pylist()):
            assert number not in rows or rows[number] == row
