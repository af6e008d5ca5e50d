"""Rows of object files: accepted objects, and field and reason of rejects."""

import gzip
import json
import math
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.errors import SettingError, UsageError
from pststream.input.attributes import KeptColumns, of_table
from pststream.input.parse_objects import OBJECTS, ObjectOptions, parse_objects
from pststream.input.readers import read_chunks
from pststream.input.row_chunks import REASONS, REJECTED, ColumnChunk
from tests.fuzz.cases import examples
from tests.oracles import rows as slow_rows
from tests.oracles import text as slow

GOOD = {"object_id": "a", "ts": "2026-03-01T12:00:00Z", "lon": "1.5", "lat": "-2", "text": "Tea, free TEA"}


def chunk_of(rows: list[dict[str, Any]], **types: pa.DataType) -> ColumnChunk:
    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays = [pa.array([row.get(name) for row in rows], types.get(name, pa.string())) for name in names]
    numbers = np.arange(1, len(rows) + 1, dtype=np.int64)
    return ColumnChunk("folder/x.csv", numbers, pa.RecordBatch.from_arrays(arrays, names=names))


def parse(rows: list[dict[str, Any]], options: ObjectOptions | None = None, **types: pa.DataType) -> Any:
    accepted, rejected = parse_objects(chunk_of(rows, **types), options or ObjectOptions())
    assert accepted.schema == OBJECTS and rejected.schema == REJECTED
    assert len(accepted) + len(rejected) == len(rows)
    return accepted.to_pylist(), rejected.to_pylist()


def test_a_good_row() -> None:
    ((accepted,), rejected) = parse([GOOD])
    assert rejected == []
    assert accepted == {
        "row": 1,
        "object_id": "a",
        "ts": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "lon": 1.5,
        "lat": -2.0,
        "text": "Tea, free TEA",
        "text_breaks": None,
        "terms": sorted([slow.term_id("tea"), slow.term_id("free")]),
        "attributes": None,
    }


def parse_file(path: Path, options: ObjectOptions) -> tuple[list[dict[str, Any] | None], list[dict[str, Any]]]:
    """Return the attributes of the accepted objects of a file, by name as `type value`, and the rejects."""
    attributes, rejects = [], []
    for chunk in read_chunks(str(path), None, options.sources, kept=options.kept):
        accepted, rejected = parse_objects(chunk, options)
        attributes += accepted.column("attributes").to_pylist(maps_as_pydicts="strict")
        rejects += rejected.to_pylist()
    shown = [row and {name: f"{one['type']} {one['value']}" for name, one in row.items()} for row in attributes]
    return shown, rejects


def test_other_columns_of_csv_are_attributes(tmp_path: Path) -> None:
    """A column that is a field is none, one that is joined is; names of fields get a `_`; empty is absent."""
    path = tmp_path / "x.csv"
    rows = [
        "2026-01-01,theft,street,-95,29,5.50,TRUE,2026-01-01 06:00,x,t,",
        '2026-01-01,"a ""b""",,-95,29,"",no,n/a,,"",9',
    ]
    path.write_text("\n".join(["time,what,where,lon,lat,beat,sure,seen,source,text,_text", *rows, ""]), "utf-8")
    columns = {"object_id": ["@row"], "ts": ["time"], "text": ["what", "where"]}
    assert parse_file(path, ObjectOptions(columns)) == (
        [
            {"what": "text theft", "where": "text street", "beat": "text 5.50", "sure": "text TRUE",
             "seen": "text 2026-01-01 06:00", "source": "text x", "_text": "text t"},
            {"what": 'text a "b"', "sure": "text no", "seen": "text n/a", "__text": "text 9"},
        ],
        [],
    )  # fmt: skip
    types = {"beat": "number", "sure": "boolean", "seen": "time"}
    names = ("beat", "sure", "seen", "source")
    options = ObjectOptions(columns, timezone="America/Chicago", attributes=names, types=types, source="crimes")
    assert parse_file(path, options)[0] == [
        {"source": "text crimes", "beat": "number 5.50", "sure": "boolean true",
         "seen": "time 2026-01-01T12:00:00.000000Z", "_source": "text x"},
        {"source": "text crimes", "sure": "text no", "seen": "text n/a"},
    ]  # fmt: skip
    assert parse_file(path, ObjectOptions(columns, attributes=False))[0] == [None, None]


def test_values_of_parquet_keep_their_types(tmp_path: Path) -> None:
    columns = {name: [value, value] for name, value in GOOD.items()}
    others = {
        "f": pa.array([5.1, math.nan], pa.float32()), "i": pa.array([2**64 - 1, None], pa.uint64()),
        "t": pa.array([datetime(2026, 1, 1, 9), None], pa.timestamp("ns")), "b": [True, None], "s": ["x", None],
        "n": [{"a": [math.inf, 1.5], "d": datetime(2026, 1, 1)}, None], "bytes": [b"x", b"y"], "null": pa.nulls(2),
    }  # fmt: skip
    pq.write_table(pa.table({**columns, "lon": [1.0, 1.0], "lat": [1.0, 1.0], **others}), tmp_path / "x.parquet")
    assert parse_file(tmp_path / "x.parquet", ObjectOptions(timezone="America/Chicago")) == (
        [
            {"f": "number 5.1", "i": "number 18446744073709551615", "t": "time 2026-01-01T15:00:00.000000Z",
             "b": "boolean true", "s": "text x", "n": 'json {"a": [null, 1.5], "d": "2026-01-01T00:00:00"}'},
            None,
        ],
        [],
    )  # fmt: skip


def test_attributes_have_bounds(tmp_path: Path) -> None:
    """256 names and 64 KiB are accepted in every format; one more is a reject, and the other rows are not."""
    good = GOOD | {"lon": 1.0, "lat": 1.0}
    names = [f"a{number}" for number in range(257)]
    rows = [
        good | dict.fromkeys(names[:256], "x"), good | dict.fromkeys(names, "x"),
        good | {"a0": "x" * (65_536 - 2)}, good | {"a0": "x" * (65_536 - 1)}, good,
    ]  # fmt: skip
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    table = pa.Table.from_pylist([dict.fromkeys(names) | row for row in rows])
    pq.write_table(table, tmp_path / "x.parquet")
    header = [*good, *names]
    lines = [",".join(str(row.get(name, "")).join('""') for name in header) for row in rows]
    (tmp_path / "x.csv").write_text("\n".join([",".join(header), *lines, ""]), "utf-8")
    for ending in ("jsonl", "parquet", "csv"):
        attributes, rejected = parse_file(tmp_path / f"x.{ending}", ObjectOptions())
        assert [len(row or ()) for row in attributes] == [256, 1, 0]
        assert [(r["row"], r["field"], r["reason"]) for r in rejected] == [
            (2, "attributes", "attributes_too_long"), (4, "attributes", "attributes_too_long"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("object_id", "", "missing"),
        ("object_id", " ", "missing"),
        ("object_id", None, "missing"),
        ("ts", None, "missing"),
        ("ts", "", "missing"),
        ("ts", "yesterday", "unreadable_time"),
        ("ts", "0000-01-01T00:00:00Z", "time_out_of_range"),
        ("ts", "0001-01-01T00:00:00", "time_out_of_range"),
        ("ts", "1899-12-31T23:59:59.999999Z", "time_out_of_range"),
        ("ts", "2200-01-01T00:00:00Z", "time_out_of_range"),
        ("ts", "1700000000000000", "time_out_of_range"),
        ("ts", "9" * 40, "time_out_of_range"),
        ("lon", None, "missing"),
        ("lon", "", "missing"),
        ("lon", "NaN", "not_a_number"),
        ("lon", "-inf", "not_a_number"),
        ("lon", "east", "not_a_number"),
        ("lon", "180.0000001", "out_of_range"),
        ("lat", "91", "out_of_range"),
        ("lat", "1e400", "not_a_number"),
        ("text", "x" * 101, "text_too_long"),
        ("text", "ü" * 51, "text_too_long"),
    ],
)
def test_a_bad_field_costs_its_row(field: str, value: str | None, reason: str) -> None:
    accepted, (reject,) = parse([GOOD, GOOD | {field: value}, GOOD], ObjectOptions(max_text_bytes=100))
    assert [row["row"] for row in accepted] == [1, 3]
    assert reject == {"row": 2, "field": field, "reason": reason, "detail": REASONS[reason], "raw": value}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ts", "1900-01-01"),
        ("ts", "2199-12-31T23:59:59.999999Z"),
        ("ts", "1767225600000"),
        ("ts", " 2026-01-01 10:00 "),
        ("lon", "180"),
        ("lon", "-180"),
        ("lon", " 1e1 "),
        ("lat", "-90.0"),
        ("text", ""),
        ("text", None),
        ("text", "\0"),
        ("text", "x" * 100),
        ("object_id", "0"),
        ("object_id", "東京"),
    ],
)
def test_values_at_the_edge_are_accepted(field: str, value: str | None) -> None:
    accepted, rejected = parse([GOOD | {field: value}], ObjectOptions(max_text_bytes=100))
    assert (len(accepted), rejected) == (1, [])


def test_a_row_is_rejected_once_for_the_first_field_at_fault() -> None:
    _, (reject,) = parse([GOOD | {"lat": "x", "ts": "x", "text": "x" * 2_000_000}])
    assert reject["field"] == "ts"


def test_raw_values_are_cut() -> None:
    _, (reject,) = parse([GOOD | {"text": "x" * 2_000_000}])
    assert (len(reject["raw"]), reject["raw"][-1]) == (1000, "…")


def test_rejects_of_the_reader_are_handed_on_in_order() -> None:
    chunk = chunk_of([GOOD, GOOD | {"lat": "91"}])
    _, rejected = parse_objects(
        ColumnChunk("x", np.array([1, 5]), chunk.table, [slow_reject(3), slow_reject(2)]), ObjectOptions()
    )
    assert rejected.column("row").to_pylist() == [2, 3, 5]


def slow_reject(row: int) -> Any:
    from pststream.input.row_chunks import Reject

    return Reject(row, "", "not_json", "{")


def test_columns_that_are_not_text() -> None:
    row = {"object_id": 7, "ts": datetime(2026, 1, 1), "lon": 1, "lat": 2.0, "text": 5}
    types = {
        "object_id": pa.int64(),
        "ts": pa.timestamp("ns"),
        "lon": pa.int32(),
        "lat": pa.float32(),
        "text": pa.int64(),
    }
    ((accepted,), _) = parse([row], **types)
    assert (accepted["object_id"], accepted["lon"], accepted["text"]) == ("7", 1.0, "5")
    _, rejected = parse([row | {"lat": math.nan}, row | {"lat": None}, row | {"lat": 90.5}], **types)
    assert [(r["reason"], r["raw"]) for r in rejected] == [
        ("not_a_number", "nan"),
        ("missing", None),
        ("out_of_range", "90.5"),
    ]
    far = row | {"ts": 2**62}
    _, (reject,) = parse([far], **types | {"ts": pa.timestamp("us")})
    assert reject["reason"] == "time_out_of_range"


@pytest.mark.parametrize("field", list(GOOD))
@pytest.mark.parametrize(("value", "kind"), [([1], pa.list_(pa.int64())), (True, pa.bool_()), (b"x", pa.binary())])
def test_columns_of_lists_and_objects(field: str, value: Any, kind: pa.DataType) -> None:
    accepted, (reject,) = parse([GOOD | {field: value}], **{field: kind})
    assert accepted == []
    assert reject["field"] == field
    assert reject["reason"] in ("not_a_value", "unreadable_time")


def test_fields_from_other_columns() -> None:
    options = ObjectOptions(
        columns={"object_id": ["@row"], "ts": ["day", "hour"], "text": ["kind", "n", "place"]},
        constants={"lon": "7", "text": "nothing"},
        timezone="America/Chicago",
        sha256="0123456789abcdef",
    )
    assert options.sources == {"ts": ["day", "hour"], "lat": ["lat"], "text": ["kind", "n", "place"]}
    rows = [
        {"day": "2010-07-01", "hour": "06:00", "lat": "1", "kind": "theft", "n": 2, "place": None},
        {"day": "2010-01-01", "hour": "06:00", "lat": "1", "kind": "", "n": None, "place": " 9650 main"},
        {"day": "2010-01-01", "hour": None, "lat": "1", "kind": None, "n": None, "place": ""},
    ]
    accepted, rejected = parse(rows, options, n=pa.int64())
    assert rejected == []
    assert [row["text"] for row in accepted] == ["theft 2", " 9650 main", "nothing"]
    assert [row["object_id"] for row in accepted] == [f"x.csv:0123456789ab:{n}" for n in (1, 2, 3)]
    assert [row["ts"].hour for row in accepted] == [11, 12, 6]
    assert {row["lon"] for row in accepted} == {7.0}


def test_a_column_of_lists_joined_with_others() -> None:
    """It costs the rows where it has something, and hides nothing of the other columns elsewhere."""
    options = ObjectOptions(columns={"text": ["kind", "tags"]})
    rows = [GOOD | {"kind": "tea", "tags": None}, GOOD | {"kind": "tea", "tags": [1]}]
    (accepted,), (reject,) = parse(rows, options, kind=pa.string(), tags=pa.list_(pa.int64()))
    assert accepted["text"] == "tea"
    assert (reject["field"], reject["reason"], reject["raw"]) == ("text", "not_a_value", "[1]")
    options = ObjectOptions(columns={"text": ["tags", "tags"]})
    (accepted,), (reject,) = parse(rows, options, kind=pa.string(), tags=pa.list_(pa.int64()))
    assert (accepted["text"], reject["row"]) == ("", 2)


@pytest.mark.parametrize(
    ("value", "kind"), [(2**62, pa.timestamp("us")), (2**30, pa.date32()), (2**62, pa.duration("s"))]
)
@pytest.mark.parametrize("listed", [False, True])
def test_values_that_python_cannot_show(value: int, kind: pa.DataType, listed: bool) -> None:
    """Such as times after the year 9999: rejected rows show them as Arrow does."""
    integers = pa.array([value], pa.int32() if kind == pa.date32() else pa.int64())
    column = pa.ListArray.from_arrays([0, 1], integers.cast(kind)) if listed else integers.cast(kind)
    chunk = chunk_of([GOOD])
    table = chunk.table.set_column(chunk.table.schema.get_field_index("lon"), "lon", column)
    accepted, rejected = parse_objects(ColumnChunk("x.csv", chunk.rows, table, []), ObjectOptions())
    assert len(accepted) == 0 and rejected.column("field").to_pylist() == ["lon"]
    assert str(kind) in rejected.column("raw")[0].as_py()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"columns": {"colour": ["x"]}}, "no field 'colour'"),
        ({"constants": {"colour": "x"}}, "no field 'colour'"),
        ({"columns": {"ts": []}}, "no column is given"),
        ({"columns": {"ts": ["@row"]}}, "can only be the single column"),
        ({"columns": {"object_id": ["@row", "x"]}}, "can only be the single column"),
        ({"constants": {"lat": "91"}}, "constant lat=91"),
        ({"constants": {"lon": "NaN"}}, "constant lon=NaN"),
        ({"constants": {"ts": "0000-01-01"}}, "constant ts"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        ObjectOptions(**options)


def test_an_unknown_zone() -> None:
    with pytest.raises(SettingError):
        ObjectOptions(timezone="Mars/Phobos")


VALUES = st.fixed_dictionaries(
    {
        "object_id": st.sampled_from(["a", "", "ü"]),
        "ts": st.sampled_from(["2026-01-01", "1767225600000", "x", "", "2026-02-30", "20260101T000000Z"]),
        "lon": st.one_of(st.floats(-200, 200).map(repr), st.sampled_from(["NaN", "", "+1", "1,5"])),
        "lat": st.one_of(st.floats(-100, 100).map(repr), st.sampled_from(["inf", " ", ".5"])),
        "text": st.sampled_from(["", "Tea tea", "東京 ß", "x" * 200]),
    }
)


@given(st.lists(VALUES, max_size=8))
@examples(200)
def test_every_row_is_parsed_as_the_twin_parses_it(rows: list[dict[str, str]]) -> None:
    if not rows:
        return
    accepted, rejected = parse(rows, ObjectOptions(max_text_bytes=100))
    verdicts = {n: slow_object(row) for n, row in enumerate(rows, start=1)}
    assert {row["row"]: row["terms"] for row in accepted} == {n: v for n, v in verdicts.items() if isinstance(v, list)}
    assert {row["row"]: row["field"] for row in rejected} == {n: v for n, v in verdicts.items() if isinstance(v, str)}


def slow_object(row: dict[str, str]) -> str | list[int]:
    """The terms of a row, or its first field at fault."""
    if not row["object_id"]:
        return "object_id"
    time = slow_rows.time_us(row["ts"])
    if time is None:
        return "ts"
    for field, most in (("lon", 180), ("lat", 90)):
        try:
            if not abs(float(row[field])) <= most:
                return field
        except ValueError:
            return field
    return "text" if len(row["text"]) > 100 else sorted({slow.term_id(word) for word in slow.words(row["text"])})


def test_the_same_rows_from_every_format(tmp_path: Path) -> None:
    rows = [GOOD | {"object_id": str(n), "lat": str(n)} for n in range(85, 95)] + [GOOD | {"text": 'a "b", ü'}]
    csv = (
        ",".join(GOOD)
        + "\n"
        + "".join(
            ",".join(json.dumps(v, ensure_ascii=False).replace('\\"', '""') for v in r.values()) + "\n" for r in rows
        )
    )
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(csv.encode()))
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    parsed = []
    for name in ("x.csv.gz", "x.jsonl", "x.parquet"):
        (chunk,) = read_chunks(f"{tmp_path}/{name}", None, ObjectOptions().sources)
        parsed.append([batch.to_pylist() for batch in parse_objects(chunk, ObjectOptions())])
    assert parsed[0] == parsed[1] == parsed[2]
    assert (len(parsed[0][0]), len(parsed[0][1])) == (7, 4)


@pytest.mark.real_data
def test_the_houston_rows(real_data: Path) -> None:
    columns = {"object_id": ["@row"], "ts": ["time"], "text": ["offense", "location", "address"]}
    options = ObjectOptions(columns=columns)
    accepted, rejected = 0, []
    for chunk in read_chunks(str(real_data / "houston_crime_2010.parquet"), None, options.sources):
        good, bad = parse_objects(chunk, options)
        accepted += len(good)
        rejected += bad.to_pylist()
    assert accepted == 86_309
    assert [(row["field"], row["reason"]) for row in rejected] == [("lon", "missing")] * 5


def test_maps_of_any_keys_are_attributes(capfd: pytest.CaptureFixture[str]) -> None:
    days = [[(date(2026, 1, 1), 1.5), (date(2026, 1, 2), None)], None]
    escapes = [[(b"\x1b[2J\nkey", 1), (b"\x1b[2J\nkey", 2)], []]
    things = [[({"q": 1}, [True])], None]
    columns = {
        "days": pa.array(days, pa.map_(pa.date32(), pa.float64())),
        "escapes": pa.array(escapes, pa.map_(pa.binary(), pa.int64())),
        "things": pa.array(things, pa.map_(pa.struct([("q", pa.int64())]), pa.list_(pa.bool_()))),
    }
    read = of_table(pa.RecordBatch.from_pydict(columns), KeptColumns(frozenset()))
    found = [{name: json.loads(one["value"]) for name, one in row} for row in read.to_pylist()]
    first = {"days": {"2026-01-01": 1.5, "2026-01-02": None}, "escapes": {"\x1b[2J\nkey": 2}}
    assert found == [first | {"things": {'{"q": 1}': [True]}}, {"escapes": {}}]
    assert capfd.readouterr().err == ""
