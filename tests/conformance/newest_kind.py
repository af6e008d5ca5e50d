"""A kind with memory for tests: the k newest objects in a square around a point whose words satisfy the keywords.

All values are 0, so that the order is that of equal values: the newest first. It has a stored column of its own, and no
column of answers shows its values.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import Column
from pststream.kernels.questions.codes import unpack_numbers
from pststream.queries.kinds.answer_query import CONDITIONS, AnswerQuery, make_no_pieces, window_field
from pststream.queries.kinds.contract import (
    LAT,
    LON,
    WINDOW_OBJECTS,
    WINDOW_US,
    Description,
    FailedCondition,
    FieldError,
    K,
    MessagePart,
    ObjectRows,
    QueryKind,
    RankedAnswers,
    RequestLimits,
    StoredObject,
    Validity,
    WordWeights,
)
from pststream.queries.kinds.fields import EVERYTHING, parse_k_field, parse_point_field, parse_window_field
from pststream.queries.kinds.keywords import (
    KEYWORD_COLUMNS,
    parse_keyword_field,
    satisfy_keywords,
    stored_clauses,
    words_of_keywords,
)
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import request_schema

WIDTH = Column("square_width", pa.float64(), "insert: width of a square, degrees", True)
WIDEST = 10.0


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """The columns of a request with `keywords`, `point`, `width` in degrees, `k` and perhaps `window`."""
    keywords = parse_keyword_field(record, limits)
    lon, lat = parse_point_field(record)
    width = record.get("width")
    if width is None:
        raise FieldError("width", "missing", record)
    if not 0 < width <= WIDEST:
        raise FieldError("width", "out_of_range", width, f"the width is outside 0..{WIDEST:g}")
    has_window = record.get("window") not in (None, "")
    window = parse_window_field(record, counts_objects=True) if has_window else EVERYTHING
    return {
        **keywords._asdict(), "lon": lon, "lat": lat, "square_width": float(width),
        "k": parse_k_field(record, limits.max_k), "window_us": window.micros, "window_objects": window.objects,
    }  # fmt: skip


def describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the request."""
    fields = {name: row[name] for name in ("keywords", "k")} | {"width": row["square_width"]}
    return fields | {"point": {"lon": row["lon"], "lat": row["lat"]}, "window": window_field(row)}


class SquareQuery(AnswerQuery):
    """A stored query; its region is the square."""

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """The square, then words and time."""
        assert self.region is not None
        west, south, east, north = self.region.boxes[0]
        if not (west <= stored.lon <= east and south <= stored.lat <= north):
            return FailedCondition("square", "the object lies outside the square")
        return super().first_failure(stored, validity)


def read_query(row: Mapping[str, Any]) -> SquareQuery:
    """The query of a stored row."""
    box = boxes_of(np.array([[row["lon"], row["lat"], row["square_width"]]]))[0]
    return SquareQuery(describe(row), *stored_clauses(row), Region((tuple(box.tolist()),)))


def boxes_of(numbers: np.ndarray) -> np.ndarray:
    """West, south, east, north of squares: float64[n,4]."""
    lon, lat, half = numbers[:, 0], numbers[:, 1], numbers[:, 2] / 2
    return np.column_stack([lon - half, lat - half, lon + half, lat + half])


def contain(box: np.ndarray, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Which points a box contains."""
    west, south, east, north = box
    return (west <= lon) & (lon <= east) & (south <= lat) & (lat <= north)


def values(asked: Description, objects: ObjectRows, weights: WordWeights) -> np.ndarray:
    """0 for objects of the square with the words, not a number for others."""
    box = boxes_of(np.array([[asked["point"]["lon"], asked["point"]["lat"], asked["width"]]]))[0]
    counts = contain(box, objects.lon, objects.lat) & satisfy_keywords(asked["keywords"], objects)
    return np.where(counts, 0.0, np.nan).astype(np.float32)


NEWEST = QueryKind(
    name="newest",
    fields=frozenset({"keywords", "point", "width", "k", "window"}),
    columns=(*KEYWORD_COLUMNS, LON, LAT, WIDTH, K, WINDOW_US, WINDOW_OBJECTS),
    piece_columns=(),
    brief_columns=("keywords", "square_width"),
    conditions=("square", *CONDITIONS),
    parse_request=parse_request,
    make_pieces=make_no_pieces,
    read_query=read_query,
    facts=lambda asked: {"Keywords": asked["keywords"], "Square": f"square of {asked['width']:g} degrees"},
    brief=lambda row: f"newest {row['keywords']} in a square of {row['square_width']:g} degrees",
    message_part=lambda row: MessagePart({"keywords": row["keywords"]}, words_of_keywords(row["keywords"])),
    answers=RankedAnswers(
        value_column="",
        sign=1,
        value_text=lambda value: "",
        values=values,
        parts=lambda asked, objects, weights: {},
        numbers=("lon", "lat", "square_width"),
        mark="lon",
        is_weighed=False,
        reach=lambda asked, value: None,
    ),
)


def make_newest_in_pipeline() -> Any:
    """The kind in the pipeline; imported only where batches run."""
    from pststream.pipeline.answers.ranked_kinds import IndexedReach, RankedKind

    return RankedKind(find_newest, IndexedReach(squares, no_values))


def squares(numbers: np.ndarray, thresholds: np.ndarray) -> pa.RecordBatch:
    """The squares, whatever the thresholds: the age of an object bounds no place."""
    schema, boxes = request_schema(), boxes_of(numbers)
    columns = dict(zip(("west", "south", "east", "north"), ([[side] for side in sides] for sides in boxes.T.tolist())))
    return pa.RecordBatch.from_pydict(
        {field.name: pa.array(columns.get(field.name, [None] * len(numbers)), field.type) for field in schema},
        schema=schema,
    )


def no_values(numbers: np.ndarray, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """0 for each candidate."""
    return np.zeros(len(lon), np.float32)


def find_newest(snapshot: Any, asked: Any) -> Any:
    """Compare every object with every question."""
    from pststream.search.best_objects import order_objects, place_of

    question, rows = [np.empty(0, np.int64)], [np.empty((0, 3), np.int64)]
    for number, segment in enumerate(snapshot.segments):
        terms = segment.terms[unpack_numbers(segment.row_terms[:-1])]
        texts = [set(part.tolist()) for part in np.split(terms, segment.offsets[1:-1])]
        for one, box in enumerate(boxes_of(asked.numbers)):
            ts, key = segment.times, segment.keys
            after, up_to = asked.after[one], asked.up_to[one]
            counts = (ts > after[0]) | ((ts == after[0]) & (key > after[1]))
            counts &= (ts <= up_to[0]) & (key <= up_to[1]) & contain(box, *segment.places.T)
            clauses = clauses_of(asked.clauses, one)
            own = [row for row in np.flatnonzero(counts).tolist() if all(texts[row] & clause for clause in clauses)]
            chosen = np.array(own, np.int64)
            places = place_of(number, chosen)
            question.append(np.full(len(chosen), one))
            rows.append(np.column_stack([ts[chosen], key[chosen], places]))
    joined, of_question = np.concatenate(rows), np.concatenate(question)
    best = order_objects(of_question, np.zeros(len(joined), np.float32), joined)
    rank = np.arange(len(best.question)) - np.searchsorted(best.question, best.question)
    kept = rank < asked.k[best.question]
    return type(best)(*(column[kept] for column in best))


def clauses_of(clauses: Any, question: int) -> list[set[int]]:
    """The clauses of a question as sets of terms."""
    first, last = clauses.clause_offsets[question : question + 2]
    return [
        set(clauses.terms[clauses.literal_offsets[at] : clauses.literal_offsets[at + 1]].tolist())
        for at in range(first, last)
    ]
