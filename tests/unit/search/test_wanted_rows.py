"""The objects that pieces of subscriptions may match are those of the slow twin; too much work is left to reading."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pststream.base.names import NEVER_US
from pststream.queries.text.tokenizer import term_id
from pststream.search import wanted_rows
from pststream.search.object_segments import ObjectSegment
from pststream.search.wanted_rows import find_wanted_rows, make_piece_questions, object_columns
from pststream.state.tables import TABLES
from tests.oracles.matching import matches_of
from tests.unit.search.worlds import STEP_US, Row, object_table, snapshot_of, some_objects, some_point
from tests.worlds import LATS, LONS, WORDS

ANY = 2**63 - 2


def some_piece(rnd: random.Random, rows: list[Row]) -> dict[str, Any]:
    lon, lat = some_point(rnd)
    box = rnd.choice(([lon - 0.05, lat - 0.05, lon + 0.05, lat + 0.05], [-180.0, -90.0, 180.0, 90.0], None))
    west, south, east, north = box or [
        *map(min, lattice := [rnd.choices(c, k=2) for c in (LONS, LATS)]),
        *map(max, lattice),
    ]
    clauses = [sorted({term_id(w) for w in rnd.choices((*WORDS, "nowhere"), k=rnd.choice((1, 1, 2, 3)))}) for _ in "12"]
    created = rnd.choice(rows)[2] + rnd.choice((0, 0, 1, -STEP_US))
    return {
        "west": west, "south": south, "east": east, "north": north, "circle": None, "polygon": None,
        "clauses": clauses[: rnd.choice((1, 2))], "subscription_key": 1, "created_at": created,
        "end_at": rnd.choice((NEVER_US, NEVER_US, rnd.choice(rows)[2], created + 1)),
    }  # fmt: skip


def batch_of(pieces: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema([TABLES["worker_index"].schema.field(name) for name in wanted_rows.QUESTION_COLUMNS])
    return pa.RecordBatch.from_pylist(pieces, schema)


def wanted_keys(segment: ObjectSegment, pieces: list[dict[str, Any]], up_to_key: int = ANY) -> list[int] | None:
    found = find_wanted_rows(segment, make_piece_questions(batch_of(pieces), up_to_key))
    return None if found is None else sorted(segment.keys[found].tolist())


@pytest.mark.parametrize("seed", range(6))
def test_wanted_objects_are_those_of_the_twin(tmp_path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(wanted_rows, "ROW_WORK", 10**9)
    monkeypatch.setattr(wanted_rows, "FIRST_QUESTIONS", 7)
    rnd = random.Random(seed)
    rows = some_objects(rnd, 400)
    (segment,) = snapshot_of(tmp_path, rows).segments
    terms = object_table(rows).column("terms").to_pylist()
    things = [{"ts": r[2], "lon": r[3], "lat": r[4], "terms": own} for r, own in zip(rows, terms)]
    for count in (0, 1, 3, 40):
        pieces = [some_piece(rnd, rows) for _ in range(count)]
        up_to_key = rnd.choice((ANY, rows[200][0]))
        expected = sorted({rows[place][0] for place, _ in matches_of(things, pieces, [])})
        assert wanted_keys(segment, pieces, up_to_key) == [key for key in expected if key <= up_to_key]


def test_the_columns_are_those_of_the_table(tmp_path) -> None:
    rows = some_objects(random.Random(3), 200)
    (segment,) = snapshot_of(tmp_path, rows).segments
    chosen = np.flatnonzero(segment.keys % 3 == 0)
    columns = object_columns(segment, chosen)
    schema = pa.schema([TABLES["objects"].schema.field(name) for name in columns])
    made = pa.RecordBatch.from_pydict(columns, schema).to_pylist()
    stored = [row for row in object_table(rows).select(list(columns)).to_pylist() if row["object_key"] % 3 == 0]
    assert sorted(made, key=lambda row: row["object_key"]) == [{**row, "terms": sorted(row["terms"])} for row in stored]


@pytest.mark.parametrize("first_questions", [1, 500])
def test_questions_of_more_work_than_reading_are_not_asked(
    tmp_path, monkeypatch: pytest.MonkeyPatch, first_questions: int
) -> None:
    monkeypatch.setattr(wanted_rows, "FIRST_QUESTIONS", first_questions)
    rows = some_objects(random.Random(4), 300)
    (segment,) = snapshot_of(tmp_path, rows).segments
    world = {"west": -180, "south": -90, "east": 180, "north": 90, "created_at": 0, "end_at": NEVER_US}
    frequent = {**world, "clauses": [[term_id(word) for word in WORDS]]}
    absent = {**world, "clauses": [[term_id("nowhere")]]}
    assert wanted_keys(segment, [frequent] * 100) is None
    assert wanted_keys(segment, [absent] * 100) == []
    assert len(wanted_keys(segment, [{**frequent, "clauses": [[term_id(WORDS[0])]]}])) > 0
