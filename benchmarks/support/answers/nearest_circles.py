"""Make standing `knn` subscriptions, each with the circle of its k nearest objects, as rows of `worker_index`."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.matching.segments import NO_VERIFIED
from pststream.pipeline.answers.ranked_kinds import circles_of
from pststream.pipeline.calibrate.synthetic_homes import QueryWords, draw_knn
from pststream.queries.shapes.registry import cut_regions
from pststream.search.best_objects import PointQuestions, find_nearest_objects
from pststream.search.object_segments import build_object_segment
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import Clauses
from pststream.workloads.synthetic_arrays import SyntheticObjects, term_ids

PART = 100_000
"""Subscriptions whose nearest objects are searched at a time."""


def store_objects(objects: SyntheticObjects) -> ObjectSnapshot:
    """Return objects as one segment, in which the nearest are searched."""
    count = len(objects.lon)
    numbers = pa.array(np.arange(count))
    terms = pa.ListArray.from_arrays(pa.array(objects.term_offsets.astype(np.int32)), pa.array(term_ids(objects.terms)))
    rows = {
        "object_key": numbers,
        "object_id": numbers.cast(pa.string()),
        "ts": numbers.cast(TIME),
        "lon": objects.lon,
        "lat": objects.lat,
        "text": pa.repeat("", count),
        "terms": terms,
    }
    return ObjectSnapshot([build_object_segment(pa.table(rows))])


def draw_pieces(
    stored: ObjectSnapshot, source: SyntheticObjects, count: int, ks: tuple[int, int], words: QueryWords, seed: int
) -> pa.Table:
    """Draw subscriptions, and return their pieces, ascending by `subscription_key`, which counts from 0.

    The circle of a subscription contains its k nearest stored objects with one of its words. With fewer such objects
    its region is the world.
    """
    return pa.concat_tables(_draw_parts(stored, source, count, ks, words, seed)).combine_chunks()


def _draw_parts(
    stored: ObjectSnapshot, source: SyntheticObjects, count: int, ks: tuple[int, int], words: QueryWords, seed: int
) -> Iterator[pa.Table]:
    for first in range(0, count, PART):
        columns = draw_knn(source, min(PART, count - first), ks, words, seed * 1_000 + first // PART)
        points = np.column_stack([columns["lon"].to_numpy(), columns["lat"].to_numpy()])
        radius = _distances_of_kth(stored, points, _integers(columns["k"]), columns["clauses"])
        owner, pieces = cut_regions(circles_of(np.column_stack([points, np.full(len(points), np.nan)]), radius))
        rows = {
            "subscription_key": first + owner,
            **pieces,
            **{column.name: pa.nulls(len(owner), column.type) for column in NO_VERIFIED},
            "clauses": columns["clauses"].take(pa.array(owner)),
            "created_at": np.full(len(owner), names.NO_TIME),
            "end_at": np.full(len(owner), names.NEVER_US),
            "kind": columns["kind"].take(pa.array(owner)),
            "unit": pa.nulls(len(owner), pa.int64()),
        }
        yield pa.table(rows)


def _distances_of_kth(stored: ObjectSnapshot, points: np.ndarray, k: np.ndarray, clauses: pa.ListArray) -> np.ndarray:
    """Return the distance of the k-th nearest object of each subscription, infinite without one: float32[n]."""
    literals = clauses.values
    asked = Clauses(*(_integers(array) for array in (clauses.offsets, literals.offsets, literals.values)))
    after, up_to = (np.tile((ts, LAST_KEY), (len(points), 1)) for ts in (names.NO_TIME, names.NEVER_US))
    best = find_nearest_objects(stored, PointQuestions(points, k, asked, after, up_to))
    counts = np.bincount(best.question, minlength=len(points))
    has_k, distances = counts == k, np.full(len(points), np.inf, np.float32)
    distances[has_k] = best.value[np.cumsum(counts)[has_k] - 1]
    return distances


def _integers(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy().astype(np.int64))
