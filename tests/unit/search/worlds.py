"""Make random objects and questions with many coincidences, and segments of the objects in a cache."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.arrow_columns import BREAKS
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.queries.kinds.contract import QuestionLimits
from pststream.queries.text.tokenizer import term_id, terms_of
from pststream.search.answer_rows import AnswerRows
from pststream.search.answerers import ANSWERERS
from pststream.search.object_cache import ObjectCache
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import TimedQuestion
from pststream.search.read_questions import parse_question
from pststream.search.term_weights import TermWeights
from pststream.state.tables import TABLES
from tests.oracles.questions import LoggedObject, Statistics, answer, logged
from tests.oracles.twin_rows import raw_attributes
from tests.worlds import CITY, JOINS, LATS, LONS, RADII_M, START, WORDS, some_attributes, some_stop_words, some_where

STEP_US = 600_000_000
LIMITS = QuestionLimits()
CROSSED = [[-90, -45], [90, -45], [10, 45], [-90, -45]]
HOLE = [[-10, -1], [1, 1], [1, -1], [-10, -1]]
TRIANGLES = [[[[0, 0], [1, 0], [1, 1], [0, 0]]], [[[1, 1], [1.5, 1], [1.5, 1.5], [1, 1]]]]
POLYGONS: tuple[dict[str, Any], ...] = (
    {"type": "Polygon", "coordinates": [[[0, 0], [1.5, 0], [1, 1.5], [0, 1], [0, 0]]]},
    {"type": "Polygon", "coordinates": [CROSSED, HOLE]},
    {"type": "MultiPolygon", "coordinates": TRIANGLES},
    {"type": "Polygon", "coordinates": [[[-180, -90], [180, -90], [180, -45], [0, -45], [-180, -89], [-180, -90]]]},
    {
        "type": "MultiPolygon",
        "coordinates": [
            [[[179.5, 0], [180, 0], [180, 45], [179.5, 0]]],
            [[[-180, 1], [-90, 90], [-180, 45], [-180, 1]]],
        ],
    },
)

Row = tuple[int, str, int, float, float, str]


def some_objects(rnd: random.Random, count: int) -> list[Row]:
    """Draw rows (key, id, ts, lon, lat, text); keys ascend, times mostly do."""
    return [
        (
            (1 + number // 40) << 32 | number + 1,
            f"o{number}é" if number % 7 else f"o{number}",
            to_micros(START) + STEP_US * max(0, number // 3 + rnd.choice((0, 0, 0, 1, -5, -30))),
            *some_point(rnd),
            some_text(rnd),
        )
        for number in range(count)
    ]


def some_point(rnd: random.Random) -> tuple[float, float]:
    """Draw a point of the lattice, of the city, or anywhere."""
    drawn = rnd.randrange(4)
    if drawn < 2:
        return rnd.choice(LONS), rnd.choice(LATS)
    if drawn == 2:
        return CITY[0] + rnd.uniform(-0.1, 0.1), CITY[1] + rnd.uniform(-0.1, 0.1)
    return rnd.uniform(-180, 180), rnd.uniform(-90, 90)


def some_text(rnd: random.Random) -> str:
    """Draw a text, sometimes without a word."""
    return rnd.choice(JOINS).join(rnd.choices(WORDS, k=rnd.randrange(6)))


def some_keywords(rnd: random.Random) -> str | None:
    """Draw an expression, often none; sometimes with a word that no object has."""
    words = [f'"{word}"' for word in rnd.choices((*WORDS, "nowhere"), k=3)]
    forms = (None, "{0}", "{0} {1}", "{0} OR {1}", "({0} OR {1}) AND {2}", "{0} OR ({1} AND {2})", "{0} OR {1} OR {2}")
    form = rnd.choice(forms)
    return form and form.format(*words)


def some_region(rnd: random.Random) -> dict[str, Any]:
    """Draw one of the fields of shapes."""
    drawn = rnd.randrange(4)
    if drawn == 0:
        south, north = sorted(rnd.choices(LATS, k=2))
        return {"bbox": [rnd.choice(LONS), south, rnd.choice(LONS), north]}
    lon, lat = some_point(rnd)
    if drawn == 1:
        return {"circle": {"lon": lon, "lat": lat, "radius_m": rnd.choice(RADII_M)}}
    if drawn == 2:
        return {"geometry": rnd.choice(POLYGONS)}
    return {"bbox": [-180.0, -90.0, 180.0, 90.0]}


def some_question(rnd: random.Random, kind: str, objects: Sequence[Row]) -> dict[str, Any]:
    """Draw a question of a kind."""
    question: dict[str, Any] = {"question_id": "q", "kind": kind, "keywords": some_keywords(rnd)}
    question["window"] = rnd.choice((None, None, "0s", "10m", "90m", "8h", "3000d"))
    if rnd.random() < 0.5:
        question["as_of"] = iso(from_micros(to_micros(START) + STEP_US * rnd.randrange(-3, len(objects))))
    question |= some_where(str(question))
    if kind == "range":
        return {**question, **some_region(rnd), "limit": rnd.choice((None, None, 1, 3, 1000))}
    if kind == "frequent_terms":
        del question["keywords"]
        question |= some_stop_words(str(question))
        return {**question, **some_region(rnd), "k": rnd.choice((1, 2, 5, 20, 10_000))}
    if rnd.random() < 0.3:
        question["window"] = {"objects": rnd.choice((1, 2, 7, 50, 10_000))}
    lon, lat = some_point(rnd)
    question |= {"point": {"lon": lon, "lat": lat}, "k": rnd.choice((1, 2, 5, 20, 10_000))}
    if kind == "knn":
        question["max_distance_m"] = rnd.choice((None, None, 0, 1.0, 5000.0, 1e6))
    if kind == "topk":
        *words, other = rnd.sample((*WORDS, "nowhere"), rnd.randrange(2, 7))
        words += rnd.choice(([], [], [" ".join(rnd.choices(WORDS[:3], k=2))]))
        excluded = f' NOT "{other}"' if rnd.randrange(4) == 0 and other not in WORDS[:3] else ""
        question["keywords"] = " ".join(f'"{word}"' for word in words) + excluded
        question["alpha"] = rnd.choice((0, 0.0, 0.3, 0.5, 0.9, 1))
        question["distance_scale_m"] = rnd.choice((None, 1.0, 5000.0, 1e6))
    return question


def object_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as the table `objects` stores them."""
    keys, ids, times, lons, lats, texts = map(list, zip(*rows)) if rows else ([],) * 6
    terms = terms_of(pa.array(texts, pa.string()))
    kept, breaks = [_stored(some_attributes(one)) for one in ids], pa.nulls(len(keys), BREAKS)
    columns = [keys, ids, pa.array(times, pa.int64()), lons, lats, texts, breaks, terms, kept, [1] * len(keys)]
    schema = TABLES["objects"].schema
    arrays = [pa.array(c, f.type) if isinstance(c, list) else c.cast(f.type) for c, f in zip(columns, schema)]
    return pa.table(arrays, schema=schema)


def _stored(attributes: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """Return attributes as the table stores them; the time has its type."""
    types = {"offense": "text", "level": "number", "checked": "boolean", "seen": "time"}
    return [
        (name, {"type": types[name], "value": value if isinstance(value, str) else json.dumps(value)})
        for name, value in attributes.items()
        if value is not None
    ]


def logged_objects(rows: Sequence[Row]) -> list[LoggedObject]:
    """Return rows as the twin takes them."""
    return [logged(*row, raw_attributes(_stored(some_attributes(row[1])))) for row in rows]


def snapshot_of(
    folder: Path, rows: Sequence[Row], cuts: Sequence[int] = (), term_weights: TermWeights | None = None
) -> ObjectSnapshot:
    """Write rows as data files, cut at these places, each a segment; return the segments from a new cache."""
    cache, borders = ObjectCache(str(folder / "cache"), 10**9), [0, *sorted(cuts), len(rows)]
    segments, sources = [], []
    term_weights = term_weights or TermWeights(cache_dir=str(cache.folder.parent), cache_bytes=10**9)
    for number, (low, high) in enumerate(zip(borders, borders[1:])):
        path = folder / f"{number}.parquet"
        pq.write_table(object_table(rows[low:high]), path)
        sources.append((str(path),))
        segments.append(cache.segment((str(path),)))
    place = {"cache_dir": str(folder / "cache"), "cache_bytes": 10**9}
    return ObjectSnapshot(segments, sources, replace(term_weights, **place))


def weights_of(folder: Path, statistics: Statistics) -> TermWeights:
    """Write counts of words as a data file of the table `term_statistics`; return the weights by them."""
    total, counts = statistics
    rows = {"statistics_version": [3] * len(counts), "documents": list(counts.values())}
    path = folder / "statistics.parquet"
    pq.write_table(pa.table({**rows, "term_id": [term_id(word) for word in counts]}), path)
    return TermWeights(3, total, len(counts), (str(path),), str(folder / "cache"), 10**9)


def asked(records: Sequence[dict[str, Any]], up_to_key: int = LAST_KEY) -> list[TimedQuestion]:
    """Parse questions."""
    parsed = [parse_question(record, LIMITS, "UTC") for record in records]
    return [TimedQuestion(one.parsed, one.as_of, up_to_key, where=one.where) for one in parsed]


def check_answers(
    snapshot: ObjectSnapshot,
    rows: Sequence[Row],
    kind: str,
    records: Sequence[dict[str, Any]],
    up_to_key: int = LAST_KEY,
    statistics: Statistics | None = None,
) -> int:
    """Compare the answers of questions of a kind with those of the twin; return the number of rows."""
    objects = logged_objects(rows)
    answered = ANSWERERS[kind](snapshot, asked(records, up_to_key))
    for place, record in enumerate(records):
        check_answer(answered, place, objects, record, up_to_key, statistics)
    return len(answered.question)


def check_answer(
    answered: AnswerRows,
    place: int,
    objects: Sequence[LoggedObject],
    record: dict[str, Any],
    up_to_key: int,
    statistics: Statistics | None = None,
) -> None:
    """Compare one answer with that of the twin."""
    mine = pa.array(np.flatnonzero(answered.question == place))
    expected = answer(objects, record, up_to_key, statistics)
    columns = {name: column.take(mine) for name, column in answered.columns.items()}
    assert answered.rank[mine].tolist() == list(range(1, len(expected) + 1)), record
    if record.get("kind") == "frequent_terms":
        assert list(zip(columns["term"].to_pylist(), columns["count"].to_pylist())) == expected, record
        return
    times = columns["ts"].cast(pa.int64()).to_pylist()
    assert list(zip(columns["object_id"].to_pylist(), times)) == [row[:2] for row in expected], record
    for at, name in ((2, "distance_m"), (3, "score")):
        if name in columns:
            assert columns[name].to_pylist() == pytest.approx([row[at] for row in expected], rel=1e-6, abs=1e-6)
