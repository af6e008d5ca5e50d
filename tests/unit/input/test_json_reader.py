"""JSON Lines against Python's json module; the fast way against the exact one."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.errors import InputFileError
from pststream.input import json_reader
from pststream.input.attributes import KeptColumns
from pststream.input.json_reader import decode_lines
from pststream.input.readers import read_chunks
from pststream.input.request_fields import scan_json
from pststream.input.row_chunks import BOM, ColumnChunk
from tests.fuzz.cases import examples
from tests.oracles import rows as slow
from tests.oracles.records import read_records, to_records

SOURCES = {"object_id": ["id"], "lon": ["lon"], "text": ["text"]}
NAMES = ["id", "lon", "text"]
KEPT = KeptColumns(frozenset(NAMES))


def written(tmp_path: Path, content: bytes | str, name: str = "x.jsonl") -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def as_texts(chunk: ColumnChunk) -> dict[int, list[str | None]]:
    """Row number to values as text, numbers of `lon` as the exact way spells them."""
    spelled = {}
    for row, record in zip(chunk.rows.tolist(), chunk.table.to_pylist()):
        lon = record["lon"]
        spelled[row] = [record["id"], lon, record["text"]]
        if lon is not None and re.fullmatch(r"-?[0-9]+\.[0-9]+", lon):
            spelled[row][1] = json_reader.format_number(float(lon))
    return spelled


def both_ways(lines: list[bytes]) -> tuple[ColumnChunk, ColumnChunk]:
    """Parse lines with the kernel, and each by itself."""
    (fast,) = json_reader._parse_block("x", SOURCES, b"\n".join(lines), 0, KEPT)
    return fast, json_reader._parse_exactly("x", NAMES, {"lon"}, list(range(1, len(lines) + 1)), lines, KEPT)


def as_values(chunk: ColumnChunk) -> dict[int, dict[str, Any]]:
    """Row number to attributes, as Python reads their values."""
    assert chunk.attributes is not None
    read = {"text": str, "number": json.loads, "boolean": json.loads, "json": json.loads}
    attributes = chunk.attributes.to_pylist(maps_as_pydicts="strict")
    assert all(row is None or row for row in attributes)
    by_row = [{name: read[one["type"]](one["value"]) for name, one in (row or {}).items()} for row in attributes]
    return dict(zip(chunk.rows.tolist(), by_row))


def members(line: bytes) -> dict[str, Any]:
    """The members of a line that are attributes, without nulls, and without NaN, which JSON has not."""
    record = json.loads(line.removeprefix(BOM), parse_constant=lambda _: None)
    return {name: value for name, value in record.items() if value is not None and name and name not in NAMES}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ROWS = st.fixed_dictionaries(
    {
        "id": st.one_of(TEXTS, st.integers(-(2**62), 2**62)),
        "lon": st.floats(-180, 180),
        "text": st.one_of(st.none(), TEXTS),
    },
    optional={
        "other": st.one_of(st.booleans(), st.lists(st.integers(0, 9)), TEXTS, st.none(), st.integers()),
        "more": st.one_of(st.floats(), st.dictionaries(TEXTS, st.floats() | TEXTS)),
    },
)
ODD_LINES = [
    "[1]", "{", "}", '{"id": 1, "id": 2}', '{"id": 1}{"id": 2}', ' {"id": 1}', '{"lon": NaN}', '{"lon":1e400}',
    '{"lon":01}', '{"text": {"a": 1}}', '{"text": true}', '{"id": "\\ud800"}', '{"id": "\\x"}',
    '{"id": "a\tb"}', '{"id": 1,}', '{"id" 1}', '{"id": 9007199254740993}',
    '{"id": 123456789012345678901234567890}', '{"lon": 18}', '{"lon": "18"}', "{'id': 1}", '{"id": "a\0b"}',
    '{"a": [1e300, NaN]}', '{"a": 1e400, "b": [1e400]}',
    '{"a": NaN, "": 1, "_id": -0}',
    '{"id": 1} //', '{"id": 1} {', '{"other": {"id": "b"}, "id": "a"}', '{"lon": -0}', '{"lon": 1.}', "{}",
]  # fmt: skip
LINES = st.one_of(
    ROWS.map(lambda row: json.dumps(row)),
    ROWS.map(lambda row: json.dumps(row, ensure_ascii=False)),
    st.sampled_from(ODD_LINES),
)


@given(st.lists(LINES, min_size=1, max_size=6))
@examples(400)
def test_the_fast_way_agrees_with_the_exact_one(lines: list[str]) -> None:
    fast, exact = both_ways([line.encode() for line in lines])
    assert fast.rejected == exact.rejected
    assert as_texts(fast) == as_texts(exact)
    assert fast.rows.tolist() == exact.rows.tolist()
    assert fast.attributes == exact.attributes
    assert as_values(fast) == {row: members(lines[row - 1].encode()) for row in fast.rows.tolist()}


NESTED = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from([*NAMES, "other", "é"]), NESTED, max_size=4),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from('{}[]",:\\ue0-.1\t \n\r\x00é')), max_size=2),
    st.booleans(),
)
@examples(1500)
def test_any_line_is_read_as_the_json_module_reads_it(
    value: dict[str, Any], changes: list[tuple[float, str]], ascii_only: bool
) -> None:
    """Lines of any members, with single characters changed; what the kernel reads of them is what Python reads."""
    line = json.dumps(value, ensure_ascii=ascii_only)
    for place, character in changes:
        at = int(place * len(line))
        line = line[:at] + character + line[at + 1 :]
    content = line.encode("utf-8", "surrogatepass")
    lines = [one for one in content.split(b"\n") if one.strip()] or [b"{}"]
    fast, exact = both_ways(lines)
    assert [tuple(one) for one in fast.rejected] == [tuple(one) for one in exact.rejected]
    assert as_texts(fast) == as_texts(exact)
    assert fast.attributes == exact.attributes
    assert as_values(fast) == {row: members(lines[row - 1]) for row in fast.rows.tolist()}


@pytest.mark.parametrize("text", ["tea ü", 'a "quoted" \\ / tab\t', "\U0001f4a9 and \u0000", "é" * 50])
def test_texts_with_escapes_are_plain(text: str) -> None:
    line = json.dumps({"id": text, "lon": 1.25, "more": {"a": [1, {"b": None}, []], "c": "}"}, "text": text})
    (some,) = scan_json(line.encode(), NAMES, 10, [0, 180, 0])
    assert some.fields.plain.all()
    assert [some.fields[name].scalars().to_pylist() for name in NAMES] == [[text], ["1.25"], [text]]


@given(st.lists(st.one_of(LINES, st.sampled_from(["", "  ", "\r"])), max_size=8), st.integers(10, 40), st.booleans())
@examples(300)
def test_objects_and_their_lines_are_those_of_the_json_module(lines: list[str], block: int, ended: bool) -> None:
    lines = [
        line for line in lines if "NaN" not in line and "Infinity" not in line and "ud800" not in line and line != "{"
    ]
    content = ("\n".join(['{"id": 0}', *lines]) + "\n" * ended).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "BLOCK_BYTES", block)
        patch.setattr(json_reader, "ByteStream", lambda path: Stream(content))
        chunks = list(map(to_records, json_reader.read_json_requests("x.jsonl", ())))
    records = {row: record for chunk in chunks for row, record in zip(chunk.rows, chunk.records)}
    rejected = {reject.row for chunk in chunks for reject in chunk.rejected}
    expected = slow.json_rows(content)
    assert records == {n: row for n, row in expected.items() if row is not None}
    assert rejected == {n for n, row in expected.items() if row is None}


class Stream:
    """Bytes in place of a file."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, size: int) -> bytes:
        part, self.content = self.content[:size], self.content[size:]
        return part

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("line", "reason", "detail"),
    [
        (b"nonsense", "not_json", "character 1"),
        (b'{"id": 1', "not_json", "character 9"),
        (b'{"id": 1} {"id": 2}', "not_json", "Extra data"),
        (b'{"id": 1}, \r', "not_json", "character 10: a comma ends the line: remove it"),
        (b'\xef\xbb\xbf\xef\xbb\xbf{"id": 1}', "not_json", "character 1"),
        (b"[" * 100_000, "nested_too_deeply", "more than 32 levels deep, at character 33"),
        (b'{"id": ' + b"9" * 5000 + b"}", "not_json", ""),
        (b"7", "not_an_object", "not an object"),
        (b"null", "not_an_object", ""),
        (b'{"id": "\xff"}', "invalid_utf8", "byte 9"),
        (b'{"id": "\\udc00"}', "invalid_utf8", "half a character"),
        (b'{"id": "a\0b"}', "not_json", "control character"),
    ],
)
def test_lines_that_are_no_objects(line: bytes, reason: str, detail: str) -> None:
    chunk = decode_lines("x", NAMES, [3, 4], [line, b'{"id": 1}'])
    (reject,) = chunk.rejected
    assert (reject.row, reject.field, reject.reason) == (3, "", reason)
    assert detail in reject.detail or not reject.detail
    assert (chunk.rows, chunk.records) == ([4], [{"id": 1}])


def test_a_field_twice_is_a_reject_and_another_member_is_not() -> None:
    lines = [b'{"id": 1, "lon": 2, "lon": 3}', b'{"a": 1, "id": 2, "a": 3}', b'{"id": 3, "\\u0069d": 3}', b'{"id": 4}']
    for chunk in both_ways(lines):
        rejects = {(one.row, one.field, one.reason) for one in chunk.rejected}
        assert rejects == {(1, "lon", "repeated_field"), (3, "id", "repeated_field")}
        assert chunk.rows.tolist() == [2, 4]


def test_a_request_with_nan_inside_a_field_is_a_reject(tmp_path: Path) -> None:
    lines = ['{"id": 1, "lon": {"a": [NaN]}}', '{"id": 2, "lon": -Infinity}', '{"id": 3, "text": [1]}']
    path = written(tmp_path, "\n".join(lines) + "\n")
    (chunk,) = json_reader.read_json_requests(path, NAMES)
    records = chunk.records(np.arange(3))
    assert [(one.row, one.field, one.reason) for one in records.rejected] == [(1, "lon", "not_json")]
    assert records.rows == [2, 3]


def test_values_that_are_no_texts_or_numbers(tmp_path: Path) -> None:
    values: list[Any] = [[1], {"a": 1}, True, None, 5, 5.0, 5.5, "x"]
    path = written(tmp_path, "".join(json.dumps({"id": value, "lon": 0, "text": ""}) + "\n" for value in values))
    (chunk,) = read_chunks(path, None, SOURCES)
    assert [(r.row, r.field, r.reason, r.raw) for r in chunk.rejected] == [
        (1, "id", "not_a_value", "[1]"),
        (2, "id", "not_a_value", '{"a": 1}'),
        (3, "id", "not_a_value", "true"),
    ]
    assert chunk.table.column("id").to_pylist() == [None, "5", "5", "5.5", "x"]


def test_boms_line_ends_and_compression(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"id": 1}\r\n\r\n{"id": 2}\r\n\xef\xbb\xbf{"id": 3}'
    for name, packed in (("x.json", content), ("x.ndjson.gz", gzip.compress(content))):
        (chunk,) = read_records(written(tmp_path, packed, name), None)
        assert (chunk.rows, [record["id"] for record in chunk.records]) == ([1, 3, 4], [1, 2, 3])
    with pytest.raises(InputFileError, match="decompressed"):
        list(read_records(written(tmp_path, gzip.compress(content)[:-4], "x.jsonl.gz"), None))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('[{"id": 1},\n {"id": 2}]', "a list; .*jq -c '.\\[\\]'"),
        ('[{"id": 1}]\n', "a list; .*jq -c '.\\[\\]'"),
        ('[\n  {\n    "id": 1\n  }\n]\n', "a list; .*jq -c '.\\[\\]'"),
        ('{\n  "id": 1\n}\n', "JSON over several lines; .*jq -c [.]$"),
        ('{\n  "id": 1\n}\n{\n  "id": 2\n}\n', "JSON over several lines; .*jq -c [.]$"),
        ('{"id": 1,\n "lon": 2}\n', "JSON over several lines; .*jq -c [.]$"),
        ("PAR1", "Parquet"),
        ("\0\1\2\n", "binary"),
        ('{"id": 1, "longitude": 2, "text": ""}\n' * 3, "no column lon; it has: id, longitude, text"),
        ('{"lon": 1, "text": ""}\n' * 3, "no column id"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: str, reason: str) -> None:
    with pytest.raises(InputFileError) as caught:
        list(read_chunks(written(tmp_path, content), None, SOURCES))
    assert caught.value.hint and re.search(reason, str(caught.value), re.DOTALL)


def test_a_field_that_is_missing_here_and_there_is_null(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 1, "lon": 2}\n[1]\n{"id": 2, "text": "tea", "x": 1}\n')
    (chunk,) = read_chunks(path, None, SOURCES)
    assert as_texts(chunk) == {1: ["1", "2", None], 3: ["2", None, "tea"]}
    assert [reject.row for reject in chunk.rejected] == [2]


def test_nan_is_no_id_and_no_text() -> None:
    lines = [b'{"id": NaN, "lon": NaN, "text": -Infinity}', b'{"id": "NaN", "lon": 1, "text": "Infinity"}']
    chunk = json_reader._parse_exactly("x", ["id", "lon", "text"], {"lon"}, [1, 2], lines)
    assert chunk.table.to_pydict() == {"id": [None, "NaN"], "lon": ["NaN", "1"], "text": [None, "Infinity"]}
