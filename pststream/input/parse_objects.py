"""Parse a chunk of raw object rows into typed objects with term ids, and rejects with the first fault of each row."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import ATTRIBUTE_TYPES, ATTRIBUTES, BREAKS, TIME
from pststream.base.errors import UsageError
from pststream.input.attributes import KeptColumns, Values, column_of, too_long
from pststream.input.parse_times import (
    AMBIGUOUS_US,
    EARLIEST_US,
    LATEST_US,
    TIME_UNITS,
    parse_time,
    parse_times,
    time_fault,
)
from pststream.input.raw_values import format_number, is_blank, is_longer, is_plain, to_numbers, to_texts
from pststream.input.row_chunks import MAX_RAW_CHARACTERS, REASONS, ColumnChunk, Reject, rejects_table
from pststream.queries.conditions import OBJECT_FIELDS
from pststream.queries.text.tokenizer import terms_of
from pststream.settings import check_zone


class RowFaults:
    """The first fault of each of `rows` rows: its field, reason and raw value."""

    def __init__(self, rows: int) -> None:
        self._fault = np.full(rows, -1, dtype=np.int64)
        self._kinds: list[tuple[str, str, pa.Array]] = []

    @property
    def faultless(self) -> np.ndarray:
        """Whether each row has no fault: bool[rows]."""
        return self._fault < 0

    def mark(self, bad: np.ndarray, field: str, reason: str, raw: pa.Array) -> None:
        """Mark the faultless rows where `bad` (bool[rows]) is true; `raw` has the values of all rows."""
        new = bad & self.faultless
        if new.any():
            self._fault[new] = len(self._kinds)
            self._kinds.append((field, reason, raw))

    def rejects(self, rows: np.ndarray) -> Iterator[Reject]:
        """Yield the marked rows as rejects; `rows` int64[rows] has the row numbers in the file."""
        for i in np.flatnonzero(self._fault >= 0):
            field, reason, raw = self._kinds[self._fault[i]]
            yield Reject(int(rows[i]), field, reason, _raw_text(raw, int(i)))


def _raw_text(raw: pa.Array, at: int) -> str | None:
    scalar = raw[at]
    if not scalar.is_valid:
        return None
    try:
        value = scalar.as_py()
        return (format_number(value) if isinstance(value, float) else str(value))[: MAX_RAW_CHARACTERS + 1]
    except (ValueError, OverflowError):  # such as a time after the year 9999, also inside a list
        return f"{raw.type} {' '.join(raw.slice(at, 1).to_string().split())}"


ROW = "@row"
"""As the column of object_id: ids are `<file name>:<start of the content's hash>:<row>`."""

HASH_CHARACTERS = 12
BREAKS_COLUMN = "text_breaks"

OBJECTS = pa.schema(
    [
        ("row", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()), ("lat", pa.float64()),
        ("text", pa.string()), ("text_breaks", BREAKS), ("terms", pa.list_(pa.int64())), ("attributes", ATTRIBUTES),
    ]
)  # fmt: skip
"""Accepted objects: as the table `objects`, with the row of the file in place of keys."""

_NAMED_TYPES = ATTRIBUTE_TYPES[:4]
"""Types that a source may name: JSON of lists and objects is known as such."""

_RANGES = {"lon": 180.0, "lat": 90.0}


@dataclass(frozen=True)
class ObjectOptions:
    """How the fields of objects are read from a file.

    columns     the file's columns of a field, several joined by spaces; by default the column with the field's name
    constants   the value of a field in all rows, or, if `columns` names the field too, in rows where it is blank
    timezone    IANA name of the zone of times without one
    time_unit   unit of times that are numbers (TIME_UNITS), None if it is not named
    attributes  whether columns that are no field are kept, or the names of those that are
    types       type of columns that are kept (see KeptColumns)
    source      name of the source in the settings, empty: none
    is_retry    the file has objects that were rejected before, with their attributes and the breaks of their texts
    sha256      of the file, for ids of ROW: a later file of the same name has others

    Raises UsageError for options that contradict each other, SettingError for an unknown zone.
    """

    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    timezone: str = "UTC"
    sha256: str = ""
    max_text_bytes: int = 1_048_576
    max_id_bytes: int = sys.maxsize
    time_unit: str | None = None
    attributes: bool | tuple[str, ...] = True
    types: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    is_retry: bool = False

    def __post_init__(self) -> None:
        check_zone(self.timezone)
        if self.time_unit not in (None, *TIME_UNITS):
            raise UsageError(f"no unit of time is {self.time_unit!r}", "units: " + ", ".join(TIME_UNITS))
        for name, kind in self.types.items():
            if kind not in _NAMED_TYPES:
                raise UsageError(
                    f"column {name}: no attribute has the type {kind!r}", "types: " + ", ".join(_NAMED_TYPES)
                )
        for name in (*self.columns, *self.constants):
            if name not in OBJECT_FIELDS:
                raise UsageError(f"objects have no field {name!r}", "fields: " + ", ".join(OBJECT_FIELDS))
        for name, columns in self.columns.items():
            if not columns or not all(columns):
                raise UsageError(f"no column is given for the field {name}", f"--column {name}=NAME")
            if ROW in columns and (name != "object_id" or len(columns) > 1):
                raise UsageError(f"{ROW} can only be the single column of object_id", f"--column object_id={ROW}")
        for name, value in self.constants.items():
            self._check_constant(name, value)

    @property
    def sources(self) -> dict[str, list[str]]:
        """The columns of each field, for the reader; without fields that need no column."""
        named = {name: list(self.columns.get(name, [name])) for name in OBJECT_FIELDS if not self._only_constant(name)}
        read = {name: columns for name, columns in named.items() if columns != [ROW]}
        return read | {BREAKS_COLUMN: [BREAKS_COLUMN]} if self.is_retry else read

    @property
    def kept(self) -> KeptColumns | None:
        """The columns that are kept as attributes; None: there are none. A column that is joined with others is."""
        if self.attributes is False and not self.source:
            return None
        fields = frozenset(columns[0] for columns in self.sources.values() if len(columns) == 1)
        names = None if self.attributes is True else frozenset(self.attributes or ())
        of_times = self.timezone, self.time_unit
        return KeptColumns(fields, frozenset(OBJECT_FIELDS), names, self.types, self.source, *of_times, self.is_retry)

    def _only_constant(self, name: str) -> bool:
        return name in self.constants and name not in self.columns

    def _check_constant(self, name: str, value: str) -> None:
        if name == "object_id":
            raise UsageError(f"constant object_id={value}: all rows would have the same id", "--column object_id=@row")
        if name in _RANGES:
            number = to_numbers(pa.array([value]))[0]
            if not abs(number) <= _RANGES[name]:
                raise UsageError(f"constant {name}={value}: not a number within ±{_RANGES[name]:g}")
        if name == "ts":
            fault = time_fault(parse_time(value, self.timezone, self.time_unit))
            if fault:
                raise UsageError(f"constant ts={value}: {REASONS[fault]}", "ISO 8601, such as 2026-01-01T00:00:00Z")


def parse_objects(chunk: ColumnChunk, options: ObjectOptions) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the accepted objects of a chunk (OBJECTS) and the rejects (REJECTED), both in the order of rows.

    A row is rejected once, for its first faulty field in the order of OBJECT_FIELDS. Rows that the reader could not
    decode are among the rejects, so that both together are all rows of the chunk.
    """
    faults = RowFaults(len(chunk.rows))
    ids = parse_object_ids(chunk, options, faults)
    times = _times(chunk, options, faults)
    lons = _coordinates(chunk, options, faults, "lon")
    lats = _coordinates(chunk, options, faults, "lat")
    texts = _texts(chunk, options, faults)
    attributes = _attributes(chunk, options, faults)
    columns = [pa.array(chunk.rows), ids, times, lons, lats, texts, _text_breaks(chunk, options, texts), attributes]
    good = faults.faultless
    kept = columns if good.all() else [column.filter(pa.array(good)) for column in columns]
    accepted = pa.RecordBatch.from_arrays([*kept[:-1], terms_of(kept[5]), kept[-1]], schema=OBJECTS)
    return accepted, rejects_table([*chunk.rejected, *faults.rejects(chunk.rows)])


def _raw(chunk: ColumnChunk, options: ObjectOptions, faults: RowFaults, name: str) -> pa.Array:
    """The raw values of a field, from its columns and constants.

    If a field has several columns, columns of lists or objects are left out, and their rows are marked as faulty.
    """
    rows = len(chunk.rows)
    names = options.sources.get(name)
    if names is None:
        return pa.repeat(pa.scalar(options.constants[name], pa.string()), rows)
    columns = [chunk.table.column(source) for source in names]
    if len(columns) > 1:
        plain = [column for column in columns if _plain_or_fault(column, faults, name)]
        columns = plain or [pa.nulls(rows, pa.string())]
    raw = columns[0] if len(columns) == 1 else _joined(columns)
    if name in options.constants and is_plain(raw.type):
        texts = to_texts(raw)
        raw = pc.if_else(pa.array(is_blank(texts)), options.constants[name], texts)
    return raw


def _joined(columns: list[pa.Array]) -> pa.Array:
    """Join the texts of several columns by spaces, without null and empty texts."""
    # Two by two: pyarrow 26 loses rows where null_handling="skip" finds nothing but nulls.
    joined, *others = [pc.fill_null(to_texts(column), "") for column in columns]
    for text in others:
        both = pc.binary_join_element_wise(joined, text, " ")
        joined = pc.if_else(pc.equal(joined, ""), text, pc.if_else(pc.equal(text, ""), joined, both))
    return joined


def _plain_or_fault(raw: pa.Array, faults: RowFaults, name: str) -> bool:
    if not is_plain(raw.type):
        faults.mark(pc.is_valid(raw).to_numpy(zero_copy_only=False), name, "not_a_value", raw)
        return False
    return True


def parse_object_ids(chunk: ColumnChunk, options: ObjectOptions, faults: RowFaults) -> pa.Array:
    """Return the ids of the rows (string; null: it has none), and mark the rows whose id is faulty."""
    if list(options.columns.get("object_id", ())) == [ROW]:
        rows = pc.cast(pa.array(chunk.rows), pa.string())
        return pc.binary_join_element_wise(Path(chunk.file).name, options.sha256[:HASH_CHARACTERS], rows, ":")
    raw = _raw(chunk, options, faults, "object_id")
    plain = _plain_or_fault(raw, faults, "object_id")
    ids = to_texts(raw) if plain else pa.nulls(len(raw), pa.string())
    faults.mark(is_blank(ids), "object_id", "missing", raw)
    faults.mark(is_longer(ids, options.max_id_bytes), "object_id", "id_too_long", raw)
    return ids


def _times(chunk: ColumnChunk, options: ObjectOptions, faults: RowFaults) -> pa.Array:
    raw = _raw(chunk, options, faults, "ts")
    faults.mark(is_blank(raw), "ts", "missing", raw)
    times, read = parse_times(raw, options.timezone, options.time_unit)
    faults.mark(~read, "ts", "unreadable_time", raw)
    faults.mark(times == AMBIGUOUS_US, "ts", "ambiguous_time", raw)
    faults.mark((times < EARLIEST_US) | (times >= LATEST_US), "ts", "time_out_of_range", raw)
    return pa.array(times).cast(pa.timestamp("us")).cast(TIME)


def _coordinates(chunk: ColumnChunk, options: ObjectOptions, faults: RowFaults, name: str) -> pa.Array:
    raw = _raw(chunk, options, faults, name)
    _plain_or_fault(raw, faults, name)
    faults.mark(is_blank(raw), name, "missing", raw)
    numbers = to_numbers(raw)
    faults.mark(~np.isfinite(numbers), name, "not_a_number", raw)
    faults.mark(~(np.abs(numbers) <= _RANGES[name]), name, "out_of_range", raw)
    return pa.array(numbers)


def _texts(chunk: ColumnChunk, options: ObjectOptions, faults: RowFaults) -> pa.Array:
    raw = _raw(chunk, options, faults, "text")
    plain = _plain_or_fault(raw, faults, "text")
    texts = pc.fill_null(to_texts(raw) if plain else pa.nulls(len(raw), pa.string()), "")
    faults.mark(is_longer(texts, options.max_text_bytes), "text", "text_too_long", raw)
    return texts


def _text_breaks(chunk: ColumnChunk, options: ObjectOptions, texts: pa.Array) -> pa.Array:
    """Return where further columns begin in the texts that were joined from several (BREAKS)."""
    if options.is_retry:
        return chunk.table.column(BREAKS_COLUMN).cast(BREAKS)
    sources = options.sources.get("text", [])
    columns = [chunk.table.column(source) for source in sources]
    joined = [pc.fill_null(to_texts(column), "") for column in columns if is_plain(column.type)]
    if len(joined) < 2:
        return pa.nulls(len(texts), BREAKS)
    sizes = np.array([pc.binary_length(column).to_numpy() for column in joined], np.int64)
    is_part = (sizes > 0) & pc.not_equal(texts, options.constants.get("text", "")).to_numpy(zero_copy_only=False)
    starts = np.cumsum((sizes + 1) * is_part, axis=0) - (sizes + 1)
    is_break = is_part & (starts > 0)
    offsets = offsets_of(is_break.sum(axis=0)).astype(np.int32)
    breaks = pa.ListArray.from_arrays(pa.array(offsets), pa.array(starts.T[is_break.T].astype(np.int32)))
    return pc.if_else(pa.array(is_break.any(axis=0)), breaks, pa.scalar(None, BREAKS))


def _attributes(chunk: ColumnChunk, options: ObjectOptions, faults: RowFaults) -> pa.Array:
    rows = len(chunk.rows)
    column = chunk.attributes
    if column is None and options.source and options.kept:
        nothing = np.zeros(0, np.int64)
        column = column_of(
            Values(np.zeros(rows, np.int64), (), nothing, nothing, pa.array([], pa.string())), options.kept
        )
    if column is None or column.null_count == rows:
        return pa.nulls(rows, ATTRIBUTES)
    faults.mark(too_long(column), "attributes", "attributes_too_long", pa.nulls(rows, pa.string()))
    return column
