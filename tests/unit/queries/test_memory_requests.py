"""Requests of subscriptions with memory: fields, bounds, rejects, stored columns, and what is shown of a stored row."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.base.errors import InputFileError
from pststream.base.utc_times import to_micros
from pststream.input.parse_requests import parse_requests, request_fields
from pststream.input.readers import read_requests
from pststream.input.row_chunks import RecordChunk
from pststream.queries.kinds.contract import RequestLimits, StoredObject, Validity
from pststream.queries.kinds.frequent_terms import stop_words_by_language
from pststream.queries.kinds.registry import KINDS, MOST_ROOM, room_of
from pststream.queries.shapes.registry import to_json
from pststream.queries.text.words import tokenize
from tests.oracles.text import term_id

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HEAD = {"op": "insert", "subscription_id": "s", "created_at": "2026-03-01T00:00:00Z"}
POINT = {"lon": 18.07, "lat": 59.33}
KNN = HEAD | {"kind": "knn", "keywords": "coffee AND free", "point": POINT, "k": 10}
TOPK = HEAD | {"kind": "topk", "keywords": "coffee cake", "point": POINT, "k": 20, "alpha": 0.5, "window": "24h"}
TERMS = HEAD | {"kind": "frequent_terms", "bbox": [1, 2, 3, 4], "k": 10, "window": "72h", "step": "1h"}
LIMITS = RequestLimits(max_k=100, max_window_steps=1000, max_past_steps=48)
HOUR = 3_600_000_000


def parse(record: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    accepted, rejected = parse_requests(RecordChunk("f", [1], [record]), NOW, limits=LIMITS)
    return accepted.to_pylist(), rejected.to_pylist()


def stored(record: dict[str, Any]) -> dict[str, Any]:
    (row,), rejected = parse(record)
    assert rejected == []
    return row


@pytest.mark.parametrize(
    ("record", "columns"),
    [
        (KNN, {"lon": 18.07, "lat": 59.33, "k": 10, "window_us": None, "window_objects": None, "alpha": None}),
        (KNN | {"max_distance_m": 900}, {"max_distance_m": 900.0}),
        (KNN | {"window": "90m"}, {"window_us": 90 * 60_000_000, "window_objects": None}),
        (KNN | {"window": {"objects": 7}}, {"window_us": None, "window_objects": 7}),
        (KNN | {"keywords": " * "}, {"keywords": None, "clauses": [[names.EVERY_OBJECT]]}),
        (TOPK, {"alpha": 0.5, "distance_scale_m": 25_000.0, "window_us": 24 * HOUR, "k": 20}),
        (TOPK, {"clauses": [[term_id("cake")], [term_id("coffee")]]}),
        (TOPK | {"distance_scale_m": 50_000}, {"distance_scale_m": 50_000.0, "step_us": None}),
        (TERMS, {"window_us": 72 * HOUR, "step_us": HOUR, "k": 10, "west": [1.0], "keywords": None, "clauses": None}),
        (TERMS | {"bbox": None, "circle": {**POINT, "radius_m": 9}}, {"circle": [18.07, 59.33, 9.0]}),
        (TERMS | {"created_at": "2026-02-27T00:00:00Z"}, {"step_us": HOUR, "stop_words": None}),
        (TERMS | {"stop_words": ["Tea", "東 京", "東京", "的", "tea", "C#"]}, {"stop_words": "c tea 東京 的"}),
        (TERMS | {"stop_words": ' ["a", "the"]'}, {"stop_words": "a the"}),
        (TERMS | {"stop_words": []}, {"stop_words": None}),
        (TERMS | {"stop_words": ""}, {"stop_words": None}),
    ],
)
def test_accepted(record: dict[str, Any], columns: dict[str, Any]) -> None:
    row = stored(record | {"payload": {"note": "kept", "left": None}, "unknown": None})
    assert {name: row[name] for name in columns} == columns
    assert row["kind"] == record["kind"] and json.loads(row["payload"]) == {"note": "kept"}


@pytest.mark.parametrize(
    ("record", "field", "reason"),
    [
        (KNN | {"keywords": ""}, "keywords", "missing"),
        (KNN | {"keywords": None}, "keywords", "missing"),
        (KNN | {"point": None}, "point", "missing"),
        (KNN | {"point": [1, 2]}, "point", "unreadable_point"),
        (KNN | {"point": {"lon": 181, "lat": 0}}, "point", "unreadable_point"),
        (KNN | {"k": None}, "k", "missing"),
        (KNN | {"k": 0}, "k", "out_of_range"),
        (KNN | {"k": 101}, "k", "out_of_range"),
        (KNN | {"k": True}, "k", "not_a_number"),
        (KNN | {"window": "3 days"}, "window", "unreadable_window"),
        (KNN | {"window": "0s"}, "window", "out_of_range"),
        (KNN | {"window": {"objects": 0}}, "window", "out_of_range"),
        (KNN | {"max_distance_m": -1}, "max_distance_m", "out_of_range"),
        (KNN | {"max_distance_m": "900"}, "max_distance_m", "not_a_number"),
        (TOPK | {"max_distance_m": 900}, "max_distance_m", "field_of_another_kind"),
        (KNN | {"alpha": 0.5}, "alpha", "field_of_another_kind"),
        (KNN | {"step": "1h"}, "step", "field_of_another_kind"),
        (KNN | {"bbox": [0, 0, 1, 1]}, "bbox", "field_of_another_kind"),
        (TOPK | {"keywords": "coffee OR cake"}, "keywords", "unreadable_expression"),
        (TOPK | {"keywords": None}, "keywords", "missing"),
        (TOPK | {"keywords": "*"}, "keywords", "unreadable_expression"),
        (TOPK | {"alpha": None}, "alpha", "missing"),
        (TOPK | {"alpha": 1.1}, "alpha", "out_of_range"),
        (TOPK | {"window": None}, "window", "missing"),
        (TOPK | {"distance_scale_m": 0}, "distance_scale_m", "out_of_range"),
        (TERMS | {"bbox": None}, "bbox", "missing"),
        (TERMS | {"window": None}, "window", "missing"),
        (TERMS | {"window": {"objects": 5}}, "window", "unreadable_window"),
        (TERMS | {"step": None}, "step", "missing"),
        (TERMS | {"stop_words": 7}, "stop_words", "unreadable_stop_words"),
        (TERMS | {"stop_words": {"en": 1}}, "stop_words", "unreadable_stop_words"),
        (TERMS | {"stop_words": ["the", 7]}, "stop_words", "unreadable_stop_words"),
        (TERMS | {"stop_words": ["?"]}, "stop_words", "unreadable_stop_words"),
        (TERMS | {"stop_words": '["the"'}, "stop_words", "unreadable_stop_words"),
        (TERMS | {"stop_words": [f"w{number}" for number in range(4_000)]}, "stop_words", "unreadable_stop_words"),
        (KNN | {"stop_words": "en"}, "stop_words", "field_of_another_kind"),
        (TERMS | {"step": "0m"}, "step", "out_of_range"),
        (TERMS | {"step": 3600}, "step", "unreadable_window"),
        (TERMS | {"step": "259s"}, "step", "too_many_steps"),
        (TERMS | {"created_at": "2026-02-26T23:59:59Z"}, "created_at", "too_many_steps"),
        (TERMS | {"keywords": "tea"}, "keywords", "field_of_another_kind"),
        (HEAD | {"kind": "range", "bbox": [0, 0, 1, 1], "k": 3}, "k", "field_of_another_kind"),
        (HEAD | {"keywords": "tea", "bbox": [0, 0, 1, 1], "k": 3}, "k", "field_of_another_kind"),
    ],
)
def test_rejected(record: dict[str, Any], field: str, reason: str) -> None:
    accepted, (reject,) = parse(record)
    assert (accepted, reject["field"], reject["reason"]) == ([], field, reason)


@pytest.mark.parametrize("language", ["en", "English", " EN "])
def test_a_language_stands_for_its_words(language: str) -> None:
    row = stored(TERMS | {"stop_words": language})
    words = row["stop_words"].split(" ")
    assert {"the", "and", "not"} <= set(words) and words == sorted(set(words))
    assert KINDS["frequent_terms"].read_query(row).describe()["stop_words"] == words


def test_each_list_has_words_that_texts_have() -> None:
    lists = stop_words_by_language()
    assert len(lists) >= 10
    for code, one in lists.items():
        words = one["words"].split(" ")
        assert len(code) == 2 and one["name"].istitle() and 40 < len(words) < 100
        assert words == sorted(set(words)) and all(tokenize(word) == [word] for word in words), code


@pytest.mark.parametrize(
    ("stop_words", "detail"),
    [
        ("englisch", "stop_words: 'englisch' is no known language; did you mean english? known: da (Danish), "),
        ("xx", "stop_words: 'xx' is no known language; known: da (Danish), de (German), en (English), "),
        (["don't"], 'stop_words: "don\'t" is not one word of reports but don, t; list those to leave out'),
        (["什么的"], "stop_words: '什么的' is not one word of reports but 么的, 什么; list those to leave out"),
        (["ok", "!"], "stop_words: '!' has no word"),
    ],
)
def test_what_is_wrong_with_stop_words(stop_words: Any, detail: str) -> None:
    _, (reject,) = parse(TERMS | {"stop_words": stop_words})
    assert reject["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("keywords", "detail"),
    [
        ("coffee OR cake", "at character 8: OR is not possible here; expected words, phrases, NOT before one of them"),
        ("(coffee)", "at character 1: ( is not possible here; expected words, phrases, NOT before one of them"),
        ("coffee *", "at character 8: * is not possible here; expected words, phrases, NOT before one of them"),
        (
            " ".join(f"w{number}" for number in range(65)),
            "at character 1: it has more than 64 different words; expected fewer words",
        ),
        ("!", "at character 1: ! has no letter and no digit; expected a word"),
        ("NOT coffee", "at character 1: there is no word that a text must have; expected a word"),
        ('"green tea" NOT tea', "at character 1: no text satisfies it; expected a word that is not excluded"),
        ("coffee NOT", "at character 8: NOT is not possible here; expected words, phrases, NOT before one of them"),
    ],
)
def test_what_is_wrong_with_the_words_of_topk(keywords: str, detail: str) -> None:
    _, (reject,) = parse(TOPK | {"keywords": keywords})
    assert reject["detail"] == detail


def test_topk_takes_64_words_and_repeats_of_them() -> None:
    words = [f"w{number}" for number in range(64)]
    assert len(stored(TOPK | {"keywords": " ".join(words * 2)})["clauses"]) == 64


def test_a_window_of_the_most_steps_is_accepted() -> None:
    assert stored(TERMS | {"window": "1000m", "step": "1m"})["step_us"] == 60_000_000


@pytest.mark.parametrize(
    ("field", "meant"),
    [("keyword", "keywords"), ("Keywords", "keywords"), ("createdAt", "created_at"), ("expires_on", "expires_at")]
    + [("box", "bbox"), ("id", "subscription_id"), ("pay_load", "payload")],
)
def test_an_unknown_field_is_a_reject_that_says_what_was_meant(field: str, meant: str) -> None:
    accepted, (reject,) = parse({**HEAD, "keywords": "tea", "bbox": [0, 0, 1, 1], "note": None, field: "x"})
    assert (accepted, reject["field"], reject["reason"], reject["raw"]) == ([], field, "unknown_field", "x")
    assert reject["detail"].startswith(
        f"'{field}' is no field of the kind range; did you mean {meant}? Free fields stand in"
    )


def test_an_unknown_column_of_parquet_is_one_fault_of_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([HEAD | {"keyword": "tea", "bbox": [0, 0, 1, 1]}] * 5), tmp_path / "x.parquet")
    with pytest.raises(InputFileError, match="column 'keyword' is no field of requests; did you mean keywords?"):
        list(read_requests(str(tmp_path / "x.parquet"), None, request_fields()))


def test_an_unknown_field_without_a_similar_one_and_in_a_deletion() -> None:
    _, (reject,) = parse({"op": "delete", "subscription_id": "s", "created_at": "2026-03-01"})
    assert "the fields are at, op, owner, payload, subscription_id; free fields stand in payload" in reject["detail"]
    _, (reject,) = parse(TERMS | {"w" * 5000: 1})
    assert reject["field"] == "w" * 40 and len(reject["detail"]) < 300


@pytest.mark.parametrize("record", [KNN, KNN | {"window": {"objects": 7}}, TOPK, TERMS, TERMS | {"step": "90m"}])
def test_a_stored_row_gives_its_request_back(record: dict[str, Any]) -> None:
    row, kind = stored(record), KINDS[record["kind"]]
    query = kind.read_query(row)
    described = query.describe()
    region = {"region": to_json(query.region)} if query.region else {}
    asked = {name: value for name, value in record.items() if name not in {*HEAD, "kind", "bbox"}} | region
    assert {name: described.get(name) for name in asked} == asked
    assert query.is_readable() and query.find_fault() is None
    assert str(record["k"]) in kind.brief(row) and kind.name in kind.brief(row)
    part = kind.message_part(row)
    assert part.fields == {"kind": kind.name, **described}
    assert part.words == ({"coffee", "free"} if kind.name == "knn" else {"coffee", "cake"} if region == {} else set())
    facts = kind.facts(described)
    assert facts["Rows"] == f"at most {record['k']}" and ("Region" in facts) is bool(region)


def test_the_first_condition_that_a_pair_fails_by_itself() -> None:
    one = StoredObject(1, "o", NOW, 18.0, 59.0, "free coffee", ())
    cases = [
        (KNN, one, -1, None),
        (KNN, replace(one, text="tea"), -1, "keywords"),
        (KNN, one, 1, "created_at"),
        (KNN | {"window": "1h"}, one, 1, None),
        (TOPK, replace(one, text="coffee"), -1, None),
        (TOPK, replace(one, text="milk"), -1, "keywords"),
        (TERMS, replace(one, lon=2.0, lat=3.0), -1, None),
        (TERMS, replace(one, lat=0.0), -1, "region"),
        (TERMS, replace(one, lon=2.0, lat=3.0, text="?"), -1, "words"),
    ]
    for record, thing, day, condition in cases:
        kind = KINDS[record["kind"]]
        failed = kind.read_query(stored(record)).first_failure(thing, Validity(NOW + timedelta(days=day)))
        assert (failed and failed.condition) == condition, (record, thing)
        assert condition is None or condition in kind.conditions


def test_words_that_a_text_lacks_for_topk_are_named_as_they_are() -> None:
    query = KINDS["topk"].read_query(stored(TOPK))
    cases = {
        "Free TEA, free": "the text has none of the words 'cake', 'coffee'; it has: free, tea",
        "?": "the text has none of the words 'cake', 'coffee'; it has no word",
    }
    for text, reason in cases.items():
        failed = query.first_failure(StoredObject(1, "o", NOW, 18.0, 59.0, text, ()), Validity(NOW))
        assert failed == ("keywords", reason)


def test_no_insertion_has_a_piece() -> None:
    for kind in (KINDS["knn"], KINDS["topk"], KINDS["frequent_terms"]):
        row, columns = kind.make_pieces(pa.RecordBatch.from_pylist([stored(KNN), stored(TERMS)]))
        assert len(row) == columns.num_rows == 0


@pytest.mark.parametrize(
    ("record", "room"),
    [
        (KNN, 10 + 2),
        (KNN | {"window": "90m"}, 30 + 2),
        (KNN | {"window": {"objects": 7}}, 30 + 2),
        (TOPK, 60 + 2),
        (TERMS, 10),
        (TERMS | {"created_at": "2026-02-27T23:30:00Z"}, 10 * 25),
        (TERMS | {"k": 100, "created_at": "2027-01-01T00:00:00Z"}, 100),
        (HEAD | {"keywords": "a AND (b OR c)", "bbox": [1, 2, 3, 4]}, 3),
        (HEAD | {"keywords": "a", "bbox": [170, 2, -170, 4]}, 2),
        (HEAD | {"keywords": "*", "bbox": [1, 2, 3, 4]}, 1),
        (
            HEAD
            | {"keywords": "a", "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [0, 9], [0, 0]]]}},
            33,
        ),
        ({"op": "delete", "subscription_id": "s"}, 0),
    ],
)
def test_room(record: dict[str, Any], room: int) -> None:
    accepted, _ = parse_requests(RecordChunk("f", [1], [record]), NOW, limits=LIMITS)
    assert room_of(accepted, to_micros(NOW)).tolist() == [room]


def test_room_has_no_overflow() -> None:
    accepted, _ = parse_requests(RecordChunk("f", [1, 2], [TERMS | {"k": 2**40, "created_at": "1900-01-01"}] * 2), NOW)
    assert room_of(accepted, to_micros(NOW)).tolist() == [MOST_ROOM] * 2
