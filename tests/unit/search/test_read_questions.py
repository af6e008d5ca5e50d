"""Questions that are not valid become rejects with field and reason; the others are read."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.queries.kinds.contract import Window
from pststream.search.read_questions import read_question_files, read_question_records
from pststream.settings import Settings

RANGE = {"question_id": "q", "kind": "range", "bbox": [0, 0, 1, 1]}
TOPK = {"question_id": "q", "kind": "topk", "point": {"lon": 1, "lat": 2}, "k": 3, "keywords": "a b", "alpha": 0.5}
TERMS = {"question_id": "q", "kind": "frequent_terms", "bbox": [0, 0, 1, 1], "k": 3}
KNN = {"question_id": "q", "kind": "knn", "point": {"lon": 1, "lat": 2}, "k": 3}


@pytest.mark.parametrize(
    ("record", "field", "reason"),
    [
        ({**RANGE, "question_id": ""}, "question_id", "missing"),
        ({**RANGE, "question_id": "x" * 1025}, "question_id", "id_too_long"),
        ({**RANGE, "kind": "nearest"}, "kind", "unknown_kind"),
        ({**RANGE, "kind": 7}, "kind", "unknown_kind"),
        ({**TOPK, "alpha": None}, "alpha", "missing"),
        ({**TOPK, "alpha": 1.01}, "alpha", "out_of_range"),
        ({**TOPK, "alpha": float("nan")}, "alpha", "out_of_range"),
        ({**TOPK, "alpha": "0.5"}, "alpha", "not_a_number"),
        ({**TOPK, "distance_scale_m": 0}, "distance_scale_m", "out_of_range"),
        ({**TOPK, "keywords": None}, "keywords", "missing"),
        ({**TOPK, "keywords": "a OR b"}, "keywords", "unreadable_expression"),
        ({**TOPK, "keywords": "a (b)"}, "keywords", "unreadable_expression"),
        ({**TOPK, "keywords": "..."}, "keywords", "unreadable_expression"),
        ({**TERMS, "k": None}, "k", "missing"),
        ({**TERMS, "keywords": "a"}, "keywords", "field_of_another_kind"),
        ({**TERMS, "stop_words": "klingon"}, "stop_words", "unreadable_stop_words"),
        ({**RANGE, "stop_words": "en"}, "stop_words", "field_of_another_kind"),
        ({**TERMS, "window": {"objects": 5}}, "window", "unreadable_window"),
        ({**RANGE, "k": 3}, "k", "field_of_another_kind"),
        ({**RANGE, "keyword": "tea"}, "keyword", "unknown_field"),
        ({**RANGE, "payload": {}}, "payload", "unknown_field"),
        ({**TOPK, "keywords": "*"}, "keywords", "unreadable_expression"),
        ({**KNN, "bbox": [0, 0, 1, 1]}, "bbox", "field_of_another_kind"),
        ({"question_id": "q"}, "bbox", "missing"),
        ({**RANGE, "circle": {"lon": 0, "lat": 0, "radius_m": 1}}, "bbox", "unreadable_region"),
        ({**RANGE, "bbox": [0, 2, 1, 1]}, "bbox", "unreadable_region"),
        ({**RANGE, "keywords": "coffee AND"}, "keywords", "unreadable_expression"),
        ({**RANGE, "keywords": 5}, "keywords", "not_a_value"),
        ({**RANGE, "limit": 0}, "limit", "out_of_range"),
        ({**RANGE, "limit": 10_001}, "limit", "out_of_range"),
        ({**RANGE, "limit": True}, "limit", "not_a_number"),
        ({**RANGE, "window": "3 days"}, "window", "unreadable_window"),
        ({**RANGE, "window": "-1h"}, "window", "unreadable_window"),
        ({**RANGE, "window": 72}, "window", "unreadable_window"),
        ({**RANGE, "window": {"objects": 5}}, "window", "unreadable_window"),
        ({**RANGE, "window": "999999d"}, "window", "out_of_range"),
        ({**RANGE, "as_of": "yesterday"}, "as_of", "unreadable_time"),
        ({**RANGE, "as_of": "1066-10-14"}, "as_of", "time_out_of_range"),
        ({**RANGE, "version": -1}, "version", "out_of_range"),
        ({**RANGE, "version": "one"}, "version", "not_a_number"),
        ({**KNN, "k": None}, "k", "missing"),
        ({**KNN, "k": 2.5}, "k", "not_a_number"),
        ({**KNN, "k": 0}, "k", "out_of_range"),
        ({**KNN, "point": None}, "point", "missing"),
        ({**KNN, "point": [1, 2]}, "point", "unreadable_point"),
        ({**KNN, "point": {"lon": 1}}, "point", "unreadable_point"),
        ({**KNN, "point": {"lon": 181, "lat": 0}}, "point", "unreadable_point"),
        ({**KNN, "point": {"lon": float("nan"), "lat": 0}}, "point", "unreadable_point"),
        ({**KNN, "window": {"objects": 0}}, "window", "out_of_range"),
        ({**KNN, "window": {"rows": 1}}, "window", "unreadable_window"),
    ],
)
def test_faults(record: dict[str, Any], field: str, reason: str) -> None:
    read = read_question_records([KNN, record], Settings())
    assert len(read.questions) == 1
    assert [(one["row"], one["field"], one["reason"]) for one in read.rejects] == [(2, field, reason)]


def test_fields() -> None:
    records = [
        {**RANGE, "kind": None, "keywords": "*", "note": None, "window": "3d", "as_of": "2026-01-01T00:00:01Z"},
        {**KNN, "keywords": "a (b OR c)", "window": {"objects": 5}, "version": 4.0},
        {**KNN, "question_id": None},
    ]
    read = read_question_records(records, Settings())
    assert not read.rejects
    first, second, third = read.questions
    assert (first.kind.name, first.parsed.clauses, first.parsed.k) == ("range", (), None)
    assert first.parsed.window == Window(micros=3 * 86_400_000_000) and first.as_of == 1_767_225_601_000_000
    assert (second.parsed.window, second.version, second.parsed.k) == (Window(objects=5), 4, 3)
    assert second.parsed.point == (1.0, 2.0) and list(map(len, second.parsed.clauses)) == [1, 2]
    assert third.question_id == "3"


def test_a_file_of_lines(tmp_path: Path) -> None:
    lines = [json.dumps(RANGE), "{not json", "", json.dumps({**KNN, "k": 0}), "[1]", json.dumps(KNN)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    read = read_question_files([str(tmp_path)], Settings())
    assert [(one.row, one.kind.name) for one in read.questions] == [(1, "range"), (6, "knn")]
    faults = sorted((one["row"], one["reason"]) for one in read.rejects)
    assert faults == [(2, "not_json"), (4, "out_of_range"), (5, "not_an_object")]
    assert {one["file"] for one in read.rejects} == {str(tmp_path / "q.jsonl")}


def test_a_parquet_file_has_the_same_fields(tmp_path: Path) -> None:
    table = pa.table(
        {
            "question_id": ["a", "b", "c"],
            "kind": ["range", "knn", "knn"],
            "bbox": pa.array([[0.0, 0.0, 1.0, 1.0], None, None]),
            "point": pa.array([None, {"lon": 1.0, "lat": 2.0}, {"lon": 1.0, "lat": 99.0}]),
            "k": pa.array([None, 3, 3]),
            "window": pa.array(["1h", None, None]),
            "as_of": pa.array([None, 1_767_225_601_000_000, None], pa.timestamp("us", tz="UTC")),
        }
    )
    pq.write_table(table, tmp_path / "q.parquet")
    read = read_question_files([str(tmp_path / "q.parquet")], Settings())
    assert [(one.question_id, one.as_of) for one in read.questions] == [("a", None), ("b", 1_767_225_601_000_000)]
    assert [(one["row"], one["field"], one["reason"]) for one in read.rejects] == [(3, "point", "unreadable_point")]


def test_words_of_topk() -> None:
    records = [{**TOPK, "keywords": words} for words in ('Coffee cake "or"', "a a A", "x-y")]
    parsed = [one.parsed for one in read_question_records(records, Settings()).questions]
    assert [len(one.clauses) for one in parsed] == [3, 1, 2]
    assert all(len(clause) == 1 for one in parsed for clause in one.clauses)
    assert parsed[0].distance_scale_m == 25_000.0
