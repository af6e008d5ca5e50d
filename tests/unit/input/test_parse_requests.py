"""Records of request files: accepted requests, and field and reason of rejects."""

import json
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.base.errors import InputFileError
from pststream.input.parse_objects import ObjectOptions, parse_objects
from pststream.input.parse_requests import REQUESTS, parse_request_chunk, parse_requests, request_fields
from pststream.input.raw_values import NotFinite
from pststream.input.readers import read_chunks, read_requests
from pststream.input.row_chunks import REASONS, REJECTED, RecordChunk, Reject
from pststream.state.data_files import FileWriter, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from tests.oracles.records import read_records, to_records
from tests.oracles.text import term_id

NOW = datetime(2026, 5, 1, 12, 30, 0, 5, tzinfo=UTC)
INSERT = {
    "op": "insert",
    "subscription_id": "s1",
    "keywords": "coffee AND (free OR cheap)",
    "bbox": [1, 2, 3, 4],
    "created_at": "2026-01-01T00:00:00Z",
    "expires_at": None,
}
TRIANGLE = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 3], [0, 0]]]}


@pytest.mark.parametrize("whole", [INSERT, {"op": "delete", "subscription_id": "s1", "at": "2026-02-01T00:00:00Z"}])
def test_no_beginning_of_a_line_is_a_request(tmp_path: Path, whole: dict[str, Any]) -> None:
    """So a half-written last line of a landed file never counts."""
    line, path = json.dumps(whole), tmp_path / "x.jsonl"
    path.write_text("\n".join([line, *(line[:length] for length in range(1, len(line)))]), "utf-8")
    (chunk,) = read_requests(str(path), None, request_fields())
    accepted, rejected = parse_request_chunk(chunk, NOW)
    assert (accepted.column("row").to_pylist(), rejected.num_rows) == ([1], len(line) - 1)


def parse(records: list[dict[str, Any]]) -> Any:
    accepted, rejected = parse_requests(RecordChunk("x", list(range(1, len(records) + 1)), records), NOW)
    assert accepted.schema == REQUESTS and rejected.schema == REJECTED
    assert len(accepted) + len(rejected) == len(records)
    return accepted.to_pylist(), rejected.to_pylist()


@pytest.mark.parametrize("zone", ["UTC", "America/Chicago"])
def test_int96_times_mean_what_microseconds_and_texts_mean(tmp_path: Path, zone: str) -> None:
    years = (1750, 1899, 2026, 2262, 2263, 2500, 2600, 9999)
    moments = [datetime(year, 12, 31, 1, 2, 3, 456789) for year in years]
    micros = pa.array(moments, pa.timestamp("us"))
    forms = [(pa.array([moment.isoformat() for moment in moments]), False), (micros, False), (micros, True)]
    outcomes = [_read_times(tmp_path, [str(year) for year in years], *form, zone) for form in forms]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    in_columns, one_by_one, (objects, rejects) = outcomes[0]
    assert in_columns == one_by_one
    assert [row["subscription_id"] for row in in_columns[0]] == [str(year) for year in years[2:]]
    assert [row["object_id"] for row in objects] == ["2026"]
    assert {row["reason"] for row in rejects} == {"time_out_of_range"}


def test_int96_times_that_no_microseconds_hold_are_refused(tmp_path: Path) -> None:
    """The last time that 64 bits hold, and the next second, which Arrow reads as one of the distant past."""
    last = (2**63 - 1) // 1_000_000
    for after, fault in ((0, False), (1, True)):
        times = pa.array([0, None, last + after], pa.timestamp("s"))
        fields = {"op": ["delete"] * 3, "subscription_id": ["a", "b", "c"], "at": times}
        rows = {"object_id": ["a", "b", "c"], "ts": times, "lon": [1] * 3, "lat": [2] * 3, "text": [""] * 3}
        for name, table in {"requests": pa.table(fields), "objects": pa.table(rows)}.items():
            pq.write_table(table, tmp_path / f"{name}.parquet", use_deprecated_int96_timestamps=True)
        readers = [
            read_requests(f"{tmp_path}/requests.parquet", None, request_fields()),
            read_chunks(f"{tmp_path}/objects.parquet", None, ObjectOptions().sources),
        ]
        for reader in readers:
            with pytest.raises(InputFileError, match="row 3, column '(at|ts)'") if fault else nullcontext():
                list(reader)


def _read_times(folder: Path, ids: list[str], times: pa.Array, int96: bool, zone: str) -> Any:
    """Return accepted rows, and rejects without raw values, of requests in columns, one by one, and of objects."""
    fields = {name: pa.repeat(value, len(ids)) for name, value in (("op", "insert"), ("keywords", "tea"))}
    circle = pa.array([{"lon": 1.0, "lat": 2.0, "radius_m": 3.0}] * len(ids))
    tables = {
        "requests": pa.table({"subscription_id": ids, "expires_at": times, "circle": circle, **fields}),
        "objects": pa.table({"object_id": ids, "ts": times, "lon": [1] * len(ids), "lat": [2] * len(ids), "text": ids}),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", use_deprecated_int96_timestamps=int96)
    (requests,) = read_requests(f"{folder}/requests.parquet", None, request_fields())
    (objects,) = read_chunks(f"{folder}/objects.parquet", None, ObjectOptions().sources)
    outcomes = [
        parse_request_chunk(requests, NOW, zone),
        parse_requests(to_records(requests), NOW, zone),
        parse_objects(objects, ObjectOptions(timezone=zone)),
    ]
    return [(good.to_pylist(), bad.drop_columns(["raw"]).to_pylist()) for good, bad in outcomes]


def test_an_insertion() -> None:
    ((request,), rejected) = parse([INSERT])
    assert rejected == []
    assert request == {
        "row": 1,
        "op": "insert",
        "owner": "",
        "subscription_id": "s1",
        "kind": "range",
        "effective_at": datetime(2026, 1, 1, tzinfo=UTC),
        "expires_at": None,
        "keywords": "coffee AND (free OR cheap)",
        "clauses": [[term_id("coffee")], sorted([term_id("free"), term_id("cheap")])],
        "verified": None,
        "phrases": None,
        "west": [1.0],
        "south": [2.0],
        "east": [3.0],
        "north": [4.0],
        "circle": None,
        "polygon": None,
        **dict.fromkeys(("lon", "lat", "k", "max_distance_m", "alpha", "distance_scale_m")),
        **dict.fromkeys(("window_us", "window_objects", "step_us", "stop_words")),
        "payload": None,
        "conditions": None,
        "condition_names": None,
    }


@pytest.mark.parametrize("changes", [{"keywords": "*"}, {"keywords": " *\t", "kind": "range"}])
def test_a_star_is_every_object(changes: dict[str, Any]) -> None:
    ((request,), rejected) = parse([INSERT | changes])
    assert rejected == []
    assert (request["keywords"], request["clauses"]) == (None, [[names.EVERY_OBJECT]])


def test_a_deletion() -> None:
    deletion = {"op": "delete", "subscription_id": 7, "at": 1_767_225_600_000, "payload": {"why": "done"}}
    ((request,), _) = parse([deletion])
    assert (request["subscription_id"], request["effective_at"]) == ("7", datetime(2026, 1, 1, tzinfo=UTC))
    assert json.loads(request["payload"]) == {"why": "done"}
    rest = ["kind", *(name for name in REQUESTS.names[6:] if name != "payload")]
    assert [request[name] for name in rest] == [None] * len(rest)


def test_missing_times_are_the_time_of_the_ingest() -> None:
    records = [INSERT | {"created_at": None}, {"op": "delete", "subscription_id": "s1"}, INSERT | {"created_at": ""}]
    requests, _ = parse(records)
    assert [row["effective_at"] for row in requests] == [NOW] * 3


def test_a_polygon() -> None:
    ((found,), _) = parse([INSERT | {"bbox": None, "geometry": TRIANGLE}])
    assert found["polygon"] == [[0.0, 0.0, 4.0, 0.0, 0.0, 3.0, 0.0, 0.0]]
    assert [found[side] for side in ("west", "south", "east", "north")] == [[0.0], [0.0], [4.0], [3.0]]
    ((as_text,), _) = parse([INSERT | {"bbox": None, "geometry": json.dumps(TRIANGLE)}])
    assert as_text["polygon"] == found["polygon"] and as_text["payload"] is None


def test_a_box_across_the_antimeridian_and_a_circle() -> None:
    circle = {"lon": 18.07, "lat": 59.33, "radius_m": 5000}
    requests, _ = parse([INSERT | {"bbox": [170, -1, -170, 1]}, INSERT | {"bbox": None, "circle": circle}])
    assert (requests[0]["west"], requests[0]["east"], requests[0]["north"]) == (
        [170.0, -180.0],
        [180.0, -170.0],
        [1.0, 1.0],
    )
    assert requests[1]["circle"] == [18.07, 59.33, 5000.0]
    assert requests[1]["west"][0] < 18.07 < requests[1]["east"][0]


@pytest.mark.parametrize("kind", [None, "", "range"])
def test_free_fields_are_kept(kind: str | None) -> None:
    free = {"user": "ü", "tags": ["a", {"b": None}], "at": "x", "n": 1.5}
    payloads = [free, free | {"left": None}, json.dumps(free)]
    requests, _ = parse([INSERT | {"kind": kind, "payload": payload} for payload in payloads])
    assert [request["kind"] for request in requests] == ["range"] * 3
    assert [json.loads(request["payload"]) for request in requests] == [free] * 3


def test_an_end_that_means_never() -> None:
    ((request,), _) = parse([INSERT | {"expires_at": "9999-12-31T23:59:59Z"}])
    assert request["expires_at"].year == 9999


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999001Z"])
def test_the_last_moment_of_all_can_be_stored(tmp_path: Path, end: str) -> None:
    """Bounds of files are rounded up to milliseconds, and the calendar ends with the year 9999."""
    home = Home(str(tmp_path / "home"))
    home.init()
    ((request,), _) = parse([INSERT | {"expires_at": end}])
    schema = TABLES[names.REQUESTS].schema
    row = {name: request.get(name) for name in schema.names} | {"request_key": 1, "subscription_key": 1}
    filled = {f.name: 0 if row[f.name] is None and pa.types.is_integer(f.type) else row[f.name] for f in schema}
    writer = FileWriter(home.table(names.REQUESTS), schema)
    writer.write(pa.RecordBatch.from_pylist([filled], schema=schema))
    file = writer.close()
    assert file is not None
    commit_files(home, names.REQUESTS, [file], application="test", transaction=1)
    (stored,) = list_data_files(home, names.REQUESTS)
    assert stored.high["expires_at"] >= int(request["expires_at"].timestamp() * 1000) * 1000


@pytest.mark.parametrize(
    ("changes", "field", "reason", "detail"),
    [
        ({"op": None}, "op", "missing", ""),
        ({"op": "upsert"}, "op", "unknown_operation", ""),
        ({"op": ["insert"]}, "op", "unknown_operation", ""),
        ({"op": "replace", "created_at": "2026-01-01"}, "created_at", "unknown_field", "is no field of the kind range"),
        ({"subscription_id": None}, "subscription_id", "missing", ""),
        ({"subscription_id": ""}, "subscription_id", "missing", ""),
        ({"subscription_id": True}, "subscription_id", "not_a_value", ""),
        ({"subscription_id": ["s"]}, "subscription_id", "not_a_value", ""),
        ({"subscription_id": float("nan")}, "subscription_id", "not_a_value", ""),
        ({"subscription_id": NotFinite("NaN")}, "subscription_id", "not_a_value", ""),
        ({"kind": "nearest"}, "kind", "unknown_kind", "known: range"),
        ({"kind": "Range"}, "kind", "unknown_kind", "known: range"),
        ({"kind": ["range"]}, "kind", "unknown_kind", "known: range"),
        ({"kind": 1}, "kind", "unknown_kind", "known: range"),
        ({"kind": NotFinite("NaN")}, "kind", "unknown_kind", "known: range"),
        ({"keywords": NotFinite("NaN")}, "keywords", "not_a_value", "keywords are one text"),
        ({"kind": "range", "keywords": ""}, "keywords", "missing", "for every object"),
        ({"keywords": ["tea"]}, "keywords", "not_a_value", 'such as "fire OR smoke"'),
        ({"keywords": "(tea"}, "keywords", "unreadable_expression", "at character 1: the parenthesis"),
        ({"keywords": "w " * 10_000}, "keywords", "unreadable_expression", "more than 1000 words"),
        (
            {"keywords": " OR ".join(f"(a{n} b{n})" for n in range(9))},
            "keywords",
            "unreadable_expression",
            "64 clauses",
        ),
        ({"bbox": None}, "bbox", "missing", "exactly one of bbox, circle or geometry"),
        ({"circle": {"lon": 0, "lat": 0, "radius_m": 1}}, "bbox", "unreadable_region", "bbox and circle are given"),
        ({"geometry": TRIANGLE}, "bbox", "unreadable_region", "bbox and geometry are given"),
        (
            {"bbox": None, "geometry": TRIANGLE | {"type": "Point"}},
            "geometry",
            "unreadable_region",
            "Polygon or MultiPolygon is expected",
        ),
        ({"bbox": [1, 2, 3]}, "bbox", "unreadable_region", "four numbers"),
        ({"bbox": [1, 5, 3, 4]}, "bbox", "unreadable_region", "south 5 is greater"),
        ({"bbox": [1, 2, 3, "NaN"]}, "bbox", "unreadable_region", "north is not a number"),
        ({"bbox": "east"}, "bbox", "unreadable_region", "not a list"),
        ({"bbox": None, "circle": {"lon": 0, "lat": 0, "radius_m": -1}}, "circle", "unreadable_region", "negative"),
        ({"created_at": "soon"}, "created_at", "unreadable_time", ""),
        ({"created_at": "0000-01-01"}, "created_at", "time_out_of_range", ""),
        ({"created_at": "0001-01-01"}, "created_at", "time_out_of_range", ""),
        ({"created_at": 10**30}, "created_at", "time_out_of_range", ""),
        ({"expires_at": "2026-01-01T00:00:00Z"}, "expires_at", "empty_validity", ""),
        ({"created_at": None, "expires_at": "2026-05-01"}, "expires_at", "empty_validity", ""),
        ({"expires_at": [1]}, "expires_at", "unreadable_time", ""),
        ({"where": {"score": {"ge": 5}}}, "where", "unreadable_where", "did you mean gte?"),
        ({"payload": {"score": float("inf")}}, "payload", "unreadable_payload", "JSON"),
        ({"payload": "tea"}, "payload", "unreadable_payload", "not an object"),
        ({"payload": ["tea"]}, "payload", "unreadable_payload", "not an object"),
        ({"payload": '{"half": "\\ud800"}'}, "payload", "unreadable_payload", "surrogates"),
        ({"payload": 7}, "payload", "unreadable_payload", "not an object"),
        ({"keywords": None}, "keywords", "missing", 'say "keywords": "*" for every object'),
        ({"keywords": None, "bbox": None}, "bbox", "missing", "exactly one of bbox, circle or geometry"),
        ({"at": "2026-01-01"}, "at", "unknown_field", "did you mean created_at?"),
        (
            {"op": "delete"},
            "keywords",
            "unknown_field",
            "no field of a deletion; the fields are at, op, owner, payload",
        ),
    ],
)
def test_a_bad_field_costs_its_row(changes: dict[str, Any], field: str, reason: str, detail: str) -> None:
    accepted, (reject,) = parse([INSERT, INSERT | changes, INSERT])
    assert [row["row"] for row in accepted] == [1, 3]
    assert (reject["row"], reject["field"], reject["reason"]) == (2, field, reason)
    assert detail in reject["detail"] if detail else reject["detail"] == REASONS[reason]
    assert reject["raw"] and len(reject["raw"]) <= 1000


def test_no_requests() -> None:
    assert parse([]) == ([], [])
    _, rejected = parse_requests(RecordChunk("x", [], [], [Reject(4, "", "not_json", "{")]), NOW)
    assert rejected.column("row").to_pylist() == [4]


def test_requests_from_json_lines_and_parquet_are_the_same(tmp_path: Path) -> None:
    circle = {"lon": 18.07, "lat": 59.33, "radius_m": 5000.0}
    records = [
        INSERT | {"circle": None, "payload": {"user": "me"}, "at": None},
        INSERT | {"bbox": None, "circle": circle, "payload": None, "at": None},
        {"op": "delete", "subscription_id": "s1", "at": "2026-02-01T00:00:00Z"},
    ]
    (tmp_path / "x.jsonl").write_text(
        "".join(json.dumps({k: v for k, v in r.items() if v is not None}) + "\n" for r in records)
    )
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "x.parquet")
    texts = [
        {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in record.items()}
        for record in records
    ]
    pq.write_table(pa.Table.from_pylist(texts), tmp_path / "texts.parquet")
    parsed = []
    for name in ("x.jsonl", "x.parquet", "texts.parquet"):
        (chunk,) = read_records(f"{tmp_path}/{name}", None)
        accepted, rejected = parse_requests(chunk, NOW)
        assert len(rejected) == 0
        parsed.append(accepted.to_pylist())
    assert parsed[0] == parsed[1] == parsed[2]
    assert [json.loads(row["payload"] or "null") for row in parsed[0]] == [{"user": "me"}, None, None]


def test_times_of_a_parquet_column(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 8, tzinfo=UTC)
    record = INSERT | {
        "created_at": moment,
        "expires_at": datetime(2027, 1, 1, tzinfo=UTC),
        "payload": {"seen": moment},
    }
    pq.write_table(pa.Table.from_pylist([record]), tmp_path / "x.parquet")
    (chunk,) = read_records(f"{tmp_path}/x.parquet", None)
    ((request,), _) = (batch.to_pylist() for batch in parse_requests(chunk, NOW))
    assert request["effective_at"] == moment
    assert json.loads(request["payload"]) == {"seen": "2026-01-01T08:00:00+00:00"}
