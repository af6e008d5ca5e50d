"""One limit of nesting for all JSON that others write, on the fast ways and the exact ones, in each Python."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import InputFileError
from pststream.input.manifests import parse_manifest
from pststream.input.parse_objects import ObjectOptions, parse_objects
from pststream.input.parse_requests import parse_request_chunk, request_fields
from pststream.input.readers import read_chunks, read_requests
from pststream.input.request_fields import scan_json
from pststream.storage.contract import StoredObject

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
OBJECT = {"object_id": "o", "ts": "2026-01-01", "lon": 1.5, "lat": 2.5, "text": "tea"}
REQUEST = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 1, 1], "created_at": "2026-01-01"}
ODD = ("", "\\u0041")
"""Where a text has an escape, the columns of requests leave a line to the exact parser."""


def nested(levels: int, leaf: str = "1", object_first: bool = False) -> str:
    """Return JSON of this many levels, lists and objects in turn."""
    opens = ['{"a": ' if (level % 2 == 0) == object_first else "[" for level in range(levels)]
    return "".join(opens) + leaf + "".join("]" if one == "[" else "}" for one in reversed(opens))


def line(record: dict[str, Any], **members: str) -> str:
    """Return a line with more members, given as JSON."""
    return json.dumps(record)[:-1] + "".join(f', "{name}": {value}' for name, value in members.items()) + "}"


def written(tmp_path: Path, lines: list[str]) -> str:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f"{one}\n" for one in lines), "utf-8")
    return str(path)


def verdicts_of_objects(path: str) -> list[tuple[int, str, str]]:
    """Return (row, field, reason) of each row; accepted rows have the reason ""."""
    rows = []
    for chunk in read_chunks(path, None, ObjectOptions().sources):
        accepted, rejected = parse_objects(chunk, ObjectOptions())
        rows += [(row, "", "") for row in accepted.column("row").to_pylist()]
        rows += [(one["row"], one["field"], one["reason"]) for one in rejected.to_pylist()]
    return sorted(rows)


def verdicts_of_requests(path: str) -> list[tuple[int, str, str]]:
    """Return (row, field, reason) of each row; accepted rows have the reason ""."""
    rows = []
    for chunk in read_requests(path, None, request_fields()):
        accepted, rejected = parse_request_chunk(chunk, NOW)
        rows += [(row, "", "") for row in accepted.column("row").to_pylist()]
        rows += [(one["row"], one["field"], one["reason"]) for one in rejected.to_pylist()]
    return sorted(rows)


@pytest.mark.parametrize("object_first", [False, True])
@pytest.mark.parametrize("leaf", ["1", '"\\u0041"', "1e400", '"[[["'])
def test_objects_have_up_to_32_levels(tmp_path: Path, object_first: bool, leaf: str) -> None:
    depths = [*range(1, 40), 500, 1_500, 100_000]
    path = written(tmp_path, [line(OBJECT, more=nested(depth, leaf, object_first)) for depth in depths])
    expected = [(row, "", "" if depth < 32 else "nested_too_deeply") for row, depth in enumerate(depths, start=1)]
    assert verdicts_of_objects(path) == expected


@pytest.mark.parametrize("extra", ODD)
def test_requests_have_up_to_32_levels(tmp_path: Path, extra: str) -> None:
    depths = [*range(1, 40), 500, 1_500, 100_000]
    path = written(
        tmp_path, [line(REQUEST, payload=f'{{"x": "{extra}", "more": {nested(depth)}}}') for depth in depths]
    )
    rows = enumerate(depths, start=1)
    expected = [(row, "", "") if depth < 31 else (row, "payload", "nested_too_deeply") for row, depth in rows]
    assert verdicts_of_requests(path) == expected


def test_the_kernel_of_objects_reads_32_levels() -> None:
    lines = [line(OBJECT, more=nested(depth)) for depth in (30, 31, 32, 33)]
    (some,) = scan_json("\n".join(lines).encode(), ["object_id"], 10, [0])
    assert some.fields.plain.tolist() == [True, True, False, False]


def test_the_reject_names_a_known_field(tmp_path: Path) -> None:
    objects = written(tmp_path, [line(OBJECT, text=nested(32)), line(OBJECT, other=nested(32))])
    assert verdicts_of_objects(objects) == [(1, "text", "nested_too_deeply"), (2, "", "nested_too_deeply")]
    regions = [nested(31), nested(32), json.dumps(nested(32)), json.dumps(nested(33))]
    request = {name: value for name, value in REQUEST.items() if name != "bbox"}
    requests = written(tmp_path, [line(request, geometry=region) for region in regions])
    assert [verdict[1:] for verdict in verdicts_of_requests(requests)] == [
        ("geometry", "unreadable_region"),
        ("geometry", "nested_too_deeply"),
        *[("geometry", "unreadable_region")] * 2,
    ]


def test_a_file_whose_first_line_is_too_deep_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, [nested(5_000), line(OBJECT)])
    assert verdicts_of_objects(path) == [(1, "", "nested_too_deeply"), (2, "", "")]


def test_a_manifest_has_up_to_32_levels() -> None:
    def fault(more: str) -> str:
        return parse_manifest(
            StoredObject("m.json", "e", 1, NOW), "", f'{{"files": [], "more": {more}}}'.encode()
        ).fault

    assert fault(nested(31)) == ""
    assert fault(nested(32)).startswith("not a manifest: lists and objects are nested more than 32 levels deep")


@pytest.mark.parametrize("levels", [30, 31, 40])
def test_columns_of_parquet_have_up_to_32_levels(tmp_path: Path, levels: int) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist([REQUEST | {"payload": {"more": value}}]), path)
    if levels < 31:
        assert verdicts_of_requests(str(path)) == [(1, "", "")]
    else:
        with pytest.raises(InputFileError, match="the column payload .* more than 32 levels deep"):
            verdicts_of_requests(str(path))
