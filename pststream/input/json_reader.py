"""Read a JSON Lines file in chunks of columns, or of whole records; turn lines that are not objects into rejects.

The format is UTF-8 with one object in each line; the number of a row is its line number.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base.errors import InputFileError
from pststream.input.attributes import BOOLEAN, JSON, MAX_NAMES, NUMBER, TEXT, KeptColumns, Values, column_of, finite
from pststream.input.input_files import ByteStream, PartStream, check_head
from pststream.input.raw_values import NotFinite, format_number
from pststream.input.request_fields import JsonLines, scan_json
from pststream.input.row_chunks import (
    BLOCK_BYTES,
    BOM,
    MAX_CHUNK_ROWS,
    MAX_ROW_BYTES,
    ColumnChunk,
    ColumnSources,
    FilePart,
    RecordChunk,
    Reject,
    RequestChunk,
    check_columns,
    column_names,
    to_display_text,
)
from pststream.queries.decode_json import NestedTooDeeply, decode_json

_SAMPLE_KEYS = 1_000
_SAMPLE_LINES = 20
_LIMITS = {"lon": 180, "lat": 90}
"""Fields of numbers. A number with a decimal point that is not below the limit is parsed by itself."""
_DECODER = json.JSONDecoder(parse_constant=NotFinite)
_MEMBERS = json.JSONDecoder(object_pairs_hook=list)

MAX_VALUES = 1 << 20
"""Lists, objects and commas of a line that is decoded by itself. Python takes up to 300 bytes for each; a text of the
default bounds has not as many."""


def read_json(
    path: str, sources: ColumnSources, part: FilePart | None = None, kept: KeptColumns | None = None
) -> Iterator[ColumnChunk]:
    """Yield chunks of the wanted fields. Blank lines are not rows, but count as lines. A missing field is null.

    part: read only these lines.
    kept: the members that become attributes
    Raises InputFileError if the file as a whole is not JSON Lines. Raises it also if all of the first rows lack the id,
    or if all of them lack a wanted field and have an unknown field: the wanted field probably has another name there.
    """
    if part is None or part.rows_before == 0:
        _check_keys(path, sources, _first_lines(path))
    with closing(PartStream(path, part.start, part.stop) if part else ByteStream(path)) as stream:
        lines_before = part.rows_before if part else 0
        for block in _blocks(path, stream, part is None):
            yield from _parse_block(path, sources, block, lines_before, kept)
            lines_before += block.count(b"\n") + 1


def read_json_requests(
    path: str, names: Collection[str], part: FilePart | None = None, longest: int = MAX_ROW_BYTES
) -> Iterator[RequestChunk]:
    """Yield chunks with the fields of these names as columns, and other lines as records on demand.

    part     read only these lines
    longest  bytes of a line above which it is a reject without being decoded, which takes up to 25 times its memory

    Raises InputFileError if the file as a whole is not JSON Lines.
    """
    if part is not None and part.rows_before == 0:
        _first_lines(path)
    with closing(PartStream(path, part.start, part.stop) if part else ByteStream(path)) as stream:
        lines_before = part.rows_before if part else 0
        for block in _blocks(path, stream, part is None):
            for some in scan_json(block, names, MAX_CHUNK_ROWS):
                yield _request_chunk(path, names, block, lines_before, some, longest)
            lines_before += block.count(b"\n") + 1


def _request_chunk(
    path: str, names: Collection[str], block: bytes, lines_before: int, some: JsonLines, longest: int
) -> RequestChunk:
    """Return some lines of a block as a chunk; lines of more than `longest` bytes are rejects."""
    rows, lines, fields = lines_before + 1 + some.numbers, some.lines, some.fields
    rejected = []
    short = lines[:, 1] - lines[:, 0] <= longest
    if not short.all():
        for row, (start, stop) in zip(rows[~short].tolist(), lines[~short].tolist()):
            raw, detail = to_display_text(block[start:stop]), f"{stop - start} bytes, more than {longest}"
            rejected.append(Reject(row, "", "row_too_long", raw, detail))
        rows, lines, fields = rows[short], lines[short], fields.select(short)
    return RequestChunk(rows, fields, partial(_decode_chosen, path, names, block, rows, lines), rejected)


def _decode_chosen(
    path: str, names: Collection[str], block: bytes, rows: np.ndarray, lines: np.ndarray, indices: np.ndarray
) -> RecordChunk:
    """Decode the lines of a chunk with these indices; `lines` are the slices of `block` of all its lines."""
    chosen = [block[start:stop] for start, stop in lines[indices].tolist()]
    chunk = decode_lines(path, names, rows[indices].tolist(), chosen)
    if not any(b"NaN" in line or b"Infinity" in line for line in chosen):
        return chunk
    whole = RecordChunk(path, [], [], chunk.rejected)
    for row, record in zip(chunk.rows, chunk.records):
        if (field := _not_finite(record)) is None:
            whole.rows.append(row)
            whole.records.append(record)
        else:
            raw = json.dumps(record[field], ensure_ascii=False)
            whole.rejected.append(
                Reject(row, field if field in names else "", "not_json", raw, "JSON has no NaN and no infinity")
            )
    return whole


def _not_finite(record: dict[str, Any]) -> str | None:
    """Return the first field of a record that is a list or an object with NaN or an infinity inside; None: none is."""

    def has_one(value: Any) -> bool:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return isinstance(value, NotFinite) or any(map(has_one, parts))

    return next((name for name, value in record.items() if isinstance(value, list | dict) and has_one(value)), None)


def decode_lines(path: str, names: Collection[str], rows: list[int], lines: list[bytes]) -> RecordChunk:
    """Decode lines into JSON objects; other lines become rejects.

    names: the fields that a reject may name; other members of a line could have any name
    """
    chunk = RecordChunk(path, [], [], [])
    for row, line in zip(rows, lines):
        value = _decode(row, line, names)
        if isinstance(value, Reject):
            chunk.rejected.append(value)
        else:
            chunk.rows.append(row)
            chunk.records.append(value)
    return chunk


def _first_lines(path: str) -> list[bytes]:
    """Return lines that are not blank from the start of a file, at most _SAMPLE_KEYS; none if it has no others."""
    with closing(ByteStream(path)) as stream:
        for block in _blocks(path, stream, True):
            lines = [line for line in block.split(b"\n") if line.strip()]
            if lines:
                return lines[:_SAMPLE_KEYS]
    return []


def _blocks(path: str, stream: ByteStream | PartStream, from_start: bool) -> Iterator[bytes]:
    """Yield the stream in blocks of whole lines, each without its last line end; from_start: it has the whole file.

    Raises InputFileError for a line of more than MAX_ROW_BYTES, before any more of it is read.
    """
    block = stream.read(BLOCK_BYTES)
    if from_start:
        block = block.removeprefix(BOM)
        _check_head(path, block)
    open_line: list[bytes] = []
    size = 0
    while block:
        end, last = block.find(b"\n"), block.rfind(b"\n")
        if size + (len(block) if end < 0 else end) > MAX_ROW_BYTES:
            raise InputFileError(path, f"a line is longer than {MAX_ROW_BYTES} bytes", "is it a JSON Lines file?")
        more = stream.read(BLOCK_BYTES)
        if not more:
            yield b"".join([*open_line, block]).removesuffix(b"\n")
        elif last >= 0:
            yield b"".join([*open_line, memoryview(block)[:last]])
            open_line, size = [], 0
        open_line.append(block[last + 1 :])
        size += len(open_line[-1])
        block = more


def _check_head(path: str, head: bytes) -> None:
    check_head(path, head[:4096], "a JSON Lines file")
    first, second = [*(line.strip() for line in head[:65_536].split(b"\n") if line.strip()), b"", b""][:2]
    is_list = first[:1] == b"[" and (not second or not _is_json(first))
    if is_list or first == b"{" or (first[:1] == b"{" and second[:1] == b'"' and not _is_json(first)):
        reason = f"the file is {'a list' if is_list else 'JSON over several lines'}; PSTStream reads JSON Lines"
        how = "jq -c '.[]'" if is_list else "jq -c ."
        raise InputFileError(path, reason, f"write one object a line, for example with: {how}")


def _is_json(line: bytes) -> bool:
    try:
        decode_json(line.decode("utf-8"))
    except NestedTooDeeply:
        return True
    except ValueError:
        return False
    return True


def _check_keys(path: str, sources: ColumnSources, lines: list[bytes]) -> None:
    decoded = (_decode(0, line, ()) for line in lines)  # of no two lines at once: a line may be large
    keys_of = [dict.fromkeys(record) for record in decoded if not isinstance(record, Reject)]
    if not keys_of:
        return
    keys = list(dict.fromkeys(key for of_line in keys_of for key in of_line))
    wanted = set(column_names(sources))
    misnamed = any(key not in wanted and all(key in of_line for of_line in keys_of) for key in keys)
    nameless = not set(sources.get("object_id", keys)) <= set(keys)
    if misnamed or nameless:
        check_columns(path, sources, keys)


def _decode(row: int, line: bytes, names: Collection[str]) -> dict[str, Any] | Reject:
    if len(line) > MAX_VALUES and sum(map(line.count, (b",", b"[", b"{"))) > MAX_VALUES:
        detail = f"it has more than {MAX_VALUES} lists, objects and commas"
        return Reject(row, "", "row_too_long", to_display_text(line), detail)
    try:
        text = line.removeprefix(BOM).decode("utf-8")  # of a file that was appended to another one
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} of the line is not UTF-8"
        return Reject(row, "", "invalid_utf8", to_display_text(line), detail)
    try:
        value = decode_json(text, _DECODER)
        half = "\\u" in text and not _is_unicode(value)
    except json.JSONDecodeError as error:
        comma = text.rstrip().endswith(",") and error.msg == "Extra data"
        detail = "a comma ends the line: remove it, as each line is an object" if comma else error.msg
        return Reject(row, "", "not_json", to_display_text(line), f"at character {error.pos + 1}: {detail}")
    except NestedTooDeeply as error:
        field = error.field if error.field in names else ""
        return Reject(row, field, "nested_too_deeply", to_display_text(line), str(error))
    except ValueError as error:
        return Reject(row, "", "not_json", to_display_text(line), f"not readable: {error}")
    if not isinstance(value, dict):
        return Reject(row, "", "not_an_object", to_display_text(line))
    if half:
        return Reject(row, "", "invalid_utf8", to_display_text(line), "an escape is half a character (a surrogate)")
    if names and (field := _repeated_field(text, names)):
        return Reject(row, field, "repeated_field", to_display_text(line), "which of its values is meant?")
    return value


def _repeated_field(text: str, names: Collection[str]) -> str:
    """Return the first field of these names that an object, as JSON text, has twice; "" if it has none."""
    fields = [name for name, _ in _MEMBERS.decode(text) if name in names]
    return next((name for place, name in enumerate(fields) if name in fields[:place]), "")


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parse_block(
    path: str, sources: ColumnSources, block: bytes, lines_before: int, kept: KeptColumns | None
) -> Iterator[ColumnChunk]:
    """Yield chunks of the lines of a block; lines that the kernel does not read are parsed one by one."""
    names, limits = column_names(sources), _limits(sources)
    numbers = {name for field in _LIMITS for name in sources.get(field, ())}
    # Members are found fast by their names, which are usually those of the first lines.
    end = 0
    for _ in range(_SAMPLE_LINES if kept else 0):
        end = block.find(b"\n", end) + 1 or len(block)
    first = next(scan_json(block[:end], names, _SAMPLE_LINES, limits, True), None)
    more = first.fields.other_names(MAX_NAMES) if first else []
    for some in scan_json(block, [*names, *more], MAX_CHUNK_ROWS, limits, kept is not None):
        rows, plain = lines_before + 1 + some.numbers, some.fields.plain
        fields = some.fields if plain.all() else some.fields.select(plain)
        table = pa.RecordBatch.from_arrays([fields[name].scalars() for name in names], names=names)
        chunk = ColumnChunk(path, rows[plain], table, [], fields.attributes(kept) if kept else None)
        if plain.all():
            yield chunk
            continue
        lines = [block[start:stop] for start, stop in some.lines[~plain].tolist()]
        odd = _parse_exactly(path, names, numbers, rows[~plain].tolist(), lines, kept)
        both = np.concatenate([chunk.rows, odd.rows])
        order = np.argsort(both)
        table = pa.concat_batches([chunk.table, odd.table]).take(pa.array(order))
        attributes = pa.concat_arrays([chunk.attributes, odd.attributes]).take(pa.array(order)) if kept else None
        yield ColumnChunk(path, both[order], table, odd.rejected, attributes)


def _limits(sources: ColumnSources) -> list[int]:
    """Return the limit of each column; 0 if it is not the only column of a field of numbers, or has other uses too."""
    used = [name for columns in sources.values() for name in columns]
    alone = {columns[0]: _LIMITS[field] for field, columns in sources.items() if field in _LIMITS and len(columns) == 1}
    return [alone.get(name, 0) if used.count(name) == 1 else 0 for name in column_names(sources)]


def _parse_exactly(
    path: str, names: list[str], numbers: set[str], rows: list[int], lines: list[bytes], kept: KeptColumns | None = None
) -> ColumnChunk:
    """Parse each line by itself: slow, exact. NaN in a field that is not a number counts as missing."""
    chunk = decode_lines(path, names, rows, lines)
    columns: list[list[str | None]] = [[] for _ in names]
    good: list[int] = []
    line_of = dict(zip(rows, lines))
    rejected = list(chunk.rejected)
    for row, record in zip(chunk.rows, chunk.records):
        values = [record.get(name) for name in names]
        at = next((i for i, value in enumerate(values) if isinstance(value, bool | list | dict)), None)
        if at is not None:
            rejected.append(Reject(row, names[at], "not_a_value", json.dumps(values[at], ensure_ascii=False)))
            continue
        good.append(row)
        for name, column, value in zip(names, columns, values):
            if isinstance(value, NotFinite) and name not in numbers:
                value = None
            column.append(value if value is None or isinstance(value, str) else format_number(value))
    arrays = [pa.array(column, pa.string()) for column in columns]
    table = pa.RecordBatch.from_arrays(arrays, names=names)
    attributes = _exact_attributes([line_of[row] for row in good], kept) if kept else None
    return ColumnChunk(path, np.array(good, dtype=np.int64), table, rejected, attributes)


def _exact_attributes(lines: list[bytes], kept: KeptColumns) -> pa.Array:
    """Return the attributes of lines, each an object; numbers, lists and objects as they are written."""
    columns, counts, chosen, types, texts = dict[str, int](), [], [], [], []
    for line in lines:
        members = _members(line.removeprefix(BOM).decode("utf-8"))
        wanted = [(name, *one) for name, one in members.items() if one[0] is not None and kept.name_of(name)]
        wanted = wanted[: MAX_NAMES + 1]  # a line with more is rejected
        counts.append(len(wanted))
        for name, value, written in wanted:
            chosen.append(columns.setdefault(name, len(columns)))
            is_json, is_text = isinstance(value, list | dict), isinstance(value, str)
            types.append(JSON if is_json else TEXT if is_text else BOOLEAN if isinstance(value, bool) else NUMBER)
            texts.append(value if is_text else written)
    arrays = np.array(counts, np.int64), list(columns), np.array(chosen, np.int64), np.array(types, np.int8)
    return column_of(Values(*arrays, pa.array(texts, pa.string())), kept)


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """Return the value of each member of a JSON object, and how it is written; of equal names the last one.

    NaN and infinities, which JSON has not, are null.
    """
    constants: list[str] = []
    decoder = json.JSONDecoder(parse_constant=constants.append)
    members, at = {}, _skip_blanks(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        start, before = _skip_blanks(text, _skip_blanks(text, at) + 1), len(constants)
        value, at = decoder.raw_decode(text, start)
        is_json = len(constants) == before
        members[name] = value, text[start:at] if is_json else json.dumps(finite(value), ensure_ascii=False)
        at = _skip_blanks(text, at)
        at = _skip_blanks(text, at + 1) if text[at] == "," else at
    return members


def _skip_blanks(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
