"""Ids, payloads and expressions beyond their bounds are rejects, with the same verdict however a row is parsed."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.input import json_reader
from pststream.input.parse_requests import parse_request_chunk, parse_requests, request_fields
from pststream.input.readers import read_requests
from pststream.pipeline.ingest.stage_file import SCHEMAS, stage_file
from pststream.pipeline.ingest.staged_rows import read_staged
from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.keywords import MAX_LEVELS
from pststream.queries.text import tokenizer
from pststream.queries.text.expression import parse_keywords
from tests.file_options import WITHOUT_BOUNDS
from tests.oracles.records import to_records

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
REQUEST = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 1, 1]}
OBJECT = {"object_id": "o", "ts": "2026-01-01", "lon": 1.5, "lat": 2.5, "text": "tea"}
LIMITS = RequestLimits(max_id_bytes=10, max_payload_bytes=30, max_expression_words=5)
PART = "(" + " OR ".join(f"(a{n} AND b{n})" for n in range(6)) + ")"
"""Twelve words and 64 clauses."""


OPTIONS = WITHOUT_BOUNDS | {"max_text_bytes": 1000}


def staged_rows(folder: Path, kind: str, file: dict[str, Any]) -> list[dict[str, Any]]:
    """Read a file as an ingest does; return its rows in the order of the file."""
    staged = stage_file(kind, str(folder / "staged"), NOW, file)
    rows = [row for batch in read_staged(staged.parts, SCHEMAS[kind].names) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["row"])


def written(tmp_path: Path, ending: str, rows: list[dict[str, Any]], escaped: bool = False) -> str:
    path = tmp_path / f"x.{ending}"
    if ending == "parquet":
        names = dict.fromkeys(name for row in rows for name in row)
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    else:
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        # Where a text has an escape, the columns of requests leave a line to the row parser.
        path.write_text("".join(f"{line.replace('s', chr(92) + 'u0073', 1) if escaped else line}\n" for line in lines))
    return str(path)


def verdicts(path: str, limits: RequestLimits) -> Iterator[list[tuple[int, str, str]]]:
    """Yield (row, field, reason) of each row, as parsed in columns and as parsed by itself; accepted rows have ""."""
    for parse in (parse_request_chunk, None):
        rows = []
        for chunk in read_requests(path, None, request_fields(), None, limits.longest_row):
            if parse:
                accepted, rejected = parse(chunk, NOW, "UTC", limits)
            else:
                accepted, rejected = parse_requests(to_records(chunk), NOW, "UTC", limits)
            rows += [(row, "", "") for row in accepted.column("row").to_pylist()]
            rows += [(one["row"], one["field"], one["reason"]) for one in rejected.to_pylist()]
        yield sorted(rows)


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"subscription_id": "i" * 10}, "", ""),
    ({"subscription_id": "i" * 11}, "subscription_id", "id_too_long"),
    ({"subscription_id": "é" * 6}, "subscription_id", "id_too_long"),
    ({"subscription_id": "i" * 11, "op": "delete"}, "", ""),
    ({"payload": {"note": "x" * 18}}, "", ""),
    ({"payload": {"note": "x" * 19}}, "payload", "payload_too_long"),
    ({"payload": {"note": "é" * 10}}, "payload", "payload_too_long"),
    ({"payload": {"note": "x" * 19}, "op": "delete"}, "payload", "payload_too_long"),
    ({"keywords": "a b c d e"}, "", ""),
    ({"keywords": "a b c d e f"}, "keywords", "unreadable_expression"),
    ({"keywords": "a-b-c d-e-f"}, "keywords", "unreadable_expression"),
    ({"keywords": "a a a a a a"}, "keywords", "unreadable_expression"),
    ({"keywords": '"é" a b c d e'}, "keywords", "unreadable_expression"),
]


@pytest.mark.parametrize(("ending", "escaped"), [("jsonl", False), ("jsonl", True), ("parquet", False)])
def test_values_have_bounds(tmp_path: Path, ending: str, escaped: bool) -> None:
    rows = [{"op": "insert", **REQUEST, **changes} for changes, _, _ in CASES]
    rows = [
        {"op": "delete", **{k: v for k, v in row.items() if k in ("subscription_id", "payload")}}
        if row["op"] == "delete"
        else row
        for row in rows
    ]
    expected = [(row, field, reason) for row, (_, field, reason) in enumerate(CASES, start=1)]
    for result in verdicts(written(tmp_path, ending, rows, escaped), LIMITS):
        assert result == expected


HOSTILE_EXPRESSIONS = {
    "w" * 200_000: False,
    "tea-" * 2_000: False,
    "w" * 5_000: True,
    "(" * MAX_LEVELS + "tea" + ")" * MAX_LEVELS: True,
    "(" * (MAX_LEVELS + 1) + "tea" + ")" * (MAX_LEVELS + 1): False,
    PART: True,
    f"{PART} OR {PART}": True,
    " OR ".join([PART] * 4): False,
    " OR ".join([PART] * 80): False,
    " ".join(f"w{n}" for n in range(64)): True,
    "a OR " * 511 + "a": True,
}


def test_expressions_have_bounds(tmp_path: Path) -> None:
    rows = [REQUEST | {"keywords": keywords} for keywords in HOSTILE_EXPRESSIONS]
    for result in verdicts(written(tmp_path, "jsonl", rows), RequestLimits()):
        assert [reason == "" for _, _, reason in result] == list(HOSTILE_EXPRESSIONS.values())


def test_stored_expressions_beyond_the_bounds_of_new_ones_are_read() -> None:
    """Explanations, messages and checks parse the expressions of subscriptions that are stored."""
    assert parse_keywords("(" * 500 + "tea" + ")" * 500).required == [["tea"]]
    assert len(parse_keywords(" OR ".join([PART] * 4)).required) == 64


def test_long_words_are_not_cached() -> None:
    tokenizer._cached_id.cache_clear()  # other tests may have filled it
    before = tokenizer._cached_id.cache_info().currsize
    assert tokenizer.term_id("x" * 65) == tokenizer.terms_of(pa.array(["x" * 65])).to_pylist()[0][0]
    assert tokenizer._cached_id.cache_info().currsize == before
    tokenizer.term_id("a word that no other test has")
    assert tokenizer._cached_id.cache_info().currsize == before + 1


def test_a_long_line_of_requests_is_rejected_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "jsonl", [REQUEST, REQUEST | {"note": [[]] * LIMITS.longest_row}, REQUEST])
    decoded: list[int] = []
    decode = json.JSONDecoder.decode
    monkeypatch.setattr(json.JSONDecoder, "decode", lambda self, text: decoded.append(len(text)) or decode(self, text))
    for result in verdicts(path, LIMITS):
        assert result == [(1, "", ""), (2, "", "row_too_long"), (3, "", "")]
    assert max(decoded) < 1_000


def test_a_line_of_very_many_values_is_rejected_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that is not kept may have them: its line is not decoded."""
    monkeypatch.setattr(json_reader, "MAX_VALUES", 1_000)
    many = [[]] * 600
    rows = [OBJECT, OBJECT | {"text": many}, OBJECT | {"note": many}, OBJECT | {"text": [1, "x" * 2_000]}]
    path = written(tmp_path, "jsonl", rows)
    decoded: list[int] = []
    decode = json.JSONDecoder.decode
    monkeypatch.setattr(json.JSONDecoder, "decode", lambda self, text: decoded.append(len(text)) or decode(self, text))
    file = {"file_seq": 1, "sha256": "0" * 64, "path": path, "options": json.dumps(OPTIONS)}
    reasons = [row["reason"] for row in staged_rows(tmp_path, "objects", file)]
    assert reasons == [None, "row_too_long", None, "not_a_value"]
    assert sorted(decoded)[-1] > 2_000 and not {len(json.dumps(row)) for row in rows[1:3]} & set(decoded)


def test_the_longest_valid_request_is_not_too_long(tmp_path: Path) -> None:
    limits = RequestLimits(max_id_bytes=1_024, max_payload_bytes=65_536)
    row = {"subscription_id": "💩" * 256, "keywords": "tea" + "𐐨" * 99_997, "payload": {"note": "💩" * 16_380}}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(REQUEST | row) + "\n")
    for result in verdicts(str(path), limits):
        assert result == [(1, "", "")]


@pytest.mark.parametrize("kind", ["objects", "requests"])
def test_bounds_are_those_that_the_ledger_stores_for_a_file(tmp_path: Path, kind: str) -> None:
    row = OBJECT | {"object_id": "i" * 2_000} if kind == "objects" else REQUEST | {"subscription_id": "i" * 2_000}
    path = written(tmp_path, "jsonl", [row])
    reasons = []
    for bounds in ({}, {"max_id_bytes": 1_024}, {"max_id_bytes": 2_000}):
        file = {"file_seq": 1, "sha256": "0" * 64, "path": path, "options": json.dumps(OPTIONS | bounds)}
        reasons += [row["reason"] for row in staged_rows(tmp_path, kind, file)]
    assert reasons == [None, "id_too_long", None]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("odd", ["", "x"])
def test_a_number_has_at_most_1000_characters(tmp_path: Path, ending: str, odd: str) -> None:
    """Whether or not another row of the column has a text that is no number."""
    lons = ["1." + "0" * 998, "1." + "0" * 999, odd or "1"]
    path = tmp_path / f"x.{ending}"
    if ending == "csv":
        path.write_text("object_id,ts,lon,lat,text\n" + "".join(f"o,2026-01-01,{lon},1,t\n" for lon in lons))
    else:
        path.write_text("".join(json.dumps(OBJECT | {"lon": lon}) + "\n" for lon in lons))
    file = {"file_seq": 1, "sha256": "0" * 64, "path": str(path), "options": json.dumps(OPTIONS)}
    reasons = [row["reason"] for row in staged_rows(tmp_path, "objects", file)]
    assert reasons == [None, "not_a_number", "not_a_number" if odd else None]


def test_decimals_of_json_numbers_are_the_same_in_each_way_of_reading(tmp_path: Path) -> None:
    """JSON has numbers, which are read whatever their form, also where an escape sends a line to the exact reader."""
    path = tmp_path / "x.jsonl"
    line = json.dumps(OBJECT).replace("1.5", "1." + "5" * 3_000)
    path.write_text(f"{line}\n{line.replace('tea', chr(92) + 'u0074ea')}\n")
    file = {"file_seq": 1, "sha256": "0" * 64, "path": str(path), "options": json.dumps(OPTIONS)}
    rows = [{name: row[name] for name in ("reason", "lon")} for row in staged_rows(tmp_path, "objects", file)]
    assert rows == [{"reason": None, "lon": 1 + 5 / 9}] * 2
