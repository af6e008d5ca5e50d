"""JSON Lines files, in chunks: UTF-8, one object a line; a row's number is that of its line."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from pststream.errors import InputFileError
from pststream.quality.input_files import ByteStream, check_head
from pststream.quality.raw_values import NotFinite, number_text
from pststream.quality.reject_reasons import Reject, shown
from pststream.quality.row_chunks import (
    BLOCK_BYTES,
    MOST_ROW_BYTES,
    MOST_ROWS,
    Chunk,
    RecordChunk,
    Sources,
    check_columns,
    names_of,
)

_BOM = b"\xef\xbb\xbf"
_SAMPLE_KEYS = 1_000
_SAMPLE_TYPES = 100
_NUMBERS = ("lon", "lat")
_DECODER = json.JSONDecoder(parse_constant=NotFinite)

Lines = tuple[list[int], list[bytes]]


def read_json(path: str, sources: Sources) -> Iterator[Chunk]:
    """Chunks of the wanted fields; blank lines are no rows, but count as lines. A missing field is null.

    Raises InputFileError where the file as a whole is no JSON Lines, or where its first rows lack a wanted field
    throughout, if it is the id, or if they share another field that nothing asks for: then it bears another name.
    """
    names = names_of(sources)
    numbers = {name for field in _NUMBERS for name in sources.get(field, ())}
    first = True
    for rows, lines in _lines(path):
        if first:
            _check_keys(path, sources, lines)
            first = False
        yield _by_arrow(path, names, numbers, rows, lines) or _by_python(path, names, numbers, rows, lines)


def read_json_records(path: str) -> Iterator[RecordChunk]:
    """Chunks of whole objects; raises InputFileError where the file as a whole is no JSON Lines."""
    for rows, lines in _lines(path):
        yield decoded(path, rows, lines)


def decoded(path: str, rows: list[int], lines: list[bytes]) -> RecordChunk:
    """Lines as JSON objects, and rejects for those that are none."""
    chunk = RecordChunk(path, [], [], [])
    for row, line in zip(rows, lines):
        found = _decode(row, line)
        if isinstance(found, Reject):
            chunk.rejected.append(found)
        else:
            chunk.rows.append(row)
            chunk.records.append(found)
    return chunk


def _lines(path: str) -> Iterator[Lines]:
    """Lines that are not blank, with their numbers, at most MOST_ROWS at a time."""
    stream = ByteStream(path)
    try:
        number = 0
        for block in _blocks(path, stream):
            parts = block.split(b"\n")
            for low in range(0, len(parts), MOST_ROWS):
                some = parts[low : low + MOST_ROWS]
                kept = [(number + i, line) for i, line in enumerate(some, start=low + 1) if line.strip()]
                if kept:
                    yield [row for row, _ in kept], [line for _, line in kept]
            number += len(parts)
    finally:
        stream.close()


def _blocks(path: str, stream: ByteStream) -> Iterator[bytes]:
    """The file cut after line ends, without the line end that each cut falls on."""
    waiting = stream.read(BLOCK_BYTES).removeprefix(_BOM)
    _check_head(path, waiting)
    while waiting:
        more = stream.read(max(BLOCK_BYTES, len(waiting)))
        cut = waiting.rfind(b"\n")
        if not more:
            yield waiting.removesuffix(b"\n")
            return
        if cut >= 0:
            yield waiting[:cut]
            waiting = waiting[cut + 1 :]
        elif len(waiting) > MOST_ROW_BYTES:
            raise InputFileError(path, f"a line is longer than {MOST_ROW_BYTES} bytes", "is it a JSON Lines file?")
        waiting += more


def _check_head(path: str, head: bytes) -> None:
    check_head(path, head[:4096], "a JSON Lines file")
    lines = [line.strip() for line in head[:65_536].split(b"\n") if line.strip()][:2]
    if lines and (lines[0] == b"{" or (lines[0][:1] == b"[" and (len(lines) == 1 or not _is_json(lines[0])))):
        reason = "one JSON document over the whole file, where JSON Lines are wanted"
        raise InputFileError(path, reason, "write one object a line, such as with: jq -c '.[]'")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _check_keys(path: str, sources: Sources, lines: list[bytes]) -> None:
    records = decoded(path, [0] * _SAMPLE_KEYS, lines[:_SAMPLE_KEYS]).records
    if not records:
        return
    keys = list(dict.fromkeys(key for record in records for key in record))
    wanted = set(names_of(sources))
    misnamed = any(key not in wanted and all(key in record for record in records) for key in keys)
    nameless = not set(sources.get("object_id", keys)) <= set(keys)
    if misnamed or nameless:
        check_columns(path, sources, keys)


def _decode(row: int, line: bytes) -> dict[str, Any] | Reject:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} of the line is not UTF-8"
        return Reject(row, "", "invalid_utf8", shown(line), detail)
    try:
        found = _DECODER.decode(text)
        half = "\\u" in text and not _is_unicode(found)
    except json.JSONDecodeError as error:
        return Reject(row, "", "not_json", shown(line), f"at character {error.pos + 1}: {error.msg}")
    except (ValueError, RecursionError) as error:
        return Reject(row, "", "not_json", shown(line), f"not readable: {error}")
    if not isinstance(found, dict):
        return Reject(row, "", "not_an_object", shown(line))
    if half:
        return Reject(row, "", "invalid_utf8", shown(line), "an escape stands for half a character (a surrogate)")
    return found


def _is_unicode(found: Any) -> bool:
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _raw(value: Any) -> str:
    """A list or an object as it was written, unless that takes more stack than to read it."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "nested too deeply to be shown"


def _by_python(path: str, names: list[str], numbers: set[str], rows: list[int], lines: list[bytes]) -> Chunk:
    """The exact way: every line on its own. NaN, where no number is wanted, is a value that is missing."""
    chunk = decoded(path, rows, lines)
    columns: list[list[str | None]] = [[] for _ in names]
    kept = []
    rejected = list(chunk.rejected)
    for row, record in zip(chunk.rows, chunk.records):
        values = [record.get(name) for name in names]
        at = next((i for i, value in enumerate(values) if isinstance(value, bool | list | dict)), None)
        if at is not None:
            rejected.append(Reject(row, names[at], "not_a_value", _raw(values[at])))
            continue
        kept.append(row)
        for name, column, value in zip(names, columns, values):
            if isinstance(value, NotFinite) and name not in numbers:
                value = None
            column.append(value if value is None or isinstance(value, str) else number_text(value))
    arrays = [pa.array(column, pa.string()) for column in columns]
    table = pa.RecordBatch.from_arrays(arrays, names=names)
    return Chunk(path, np.array(kept, dtype=np.int64), table, rejected)


def _by_arrow(path: str, names: list[str], numbers: set[str], rows: list[int], lines: list[bytes]) -> Chunk | None:
    """The fast way: all lines at once, if each is a whole object and each field has one type throughout.

    Where every line begins and ends with a brace, and there are as many objects as lines, each line is one object.
    """
    types = _types(names, numbers, lines)
    if types is None or not all(line[:1] == b"{" and line.rstrip()[-1:] == b"}" for line in lines):
        return None
    block = b"\n".join(lines)
    try:
        block.decode("utf-8")
        table = pa.json.read_json(
            pa.BufferReader(block),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
            ),
        )
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return None
    if len(table) != len(lines):
        return None
    batch = table.select(names).combine_chunks().to_batches()[0]
    return Chunk(path, np.array(rows, dtype=np.int64), batch)


def _types(names: list[str], numbers: set[str], lines: list[bytes]) -> Mapping[str, pa.DataType] | None:
    """The types that the first rows show, float64 only for `numbers` (it would not keep a long id), or None."""
    sample = decoded("", [0] * _SAMPLE_TYPES, lines[:_SAMPLE_TYPES])
    types = {}
    for name in names:
        kinds = {type(record.get(name)) for record in sample.records} - {type(None)}
        if kinds <= {str}:
            types[name] = pa.string()
        elif name in numbers and kinds <= {int, float}:
            types[name] = pa.float64()
        elif kinds == {int}:
            types[name] = pa.int64()
        else:
            return None
    return None if sample.rejected else types
