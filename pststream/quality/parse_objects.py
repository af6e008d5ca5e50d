"""Rows of a file to objects: which are accepted, and why the others are not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.errors import UsageError
from pststream.quality.parse_times import EARLIEST_US, LATEST_US, read_time, times_of
from pststream.quality.raw_values import blank, is_plain, numbers_of, texts_of
from pststream.quality.reject_reasons import rejected_batch
from pststream.quality.row_chunks import Chunk
from pststream.quality.row_faults import Faults
from pststream.settings import check_zone
from pststream.text.tokenizer import terms_of

FIELDS = ("object_id", "ts", "lon", "lat", "text")
ROW = "@row"
"""As the column of object_id: the id is `<file name>:<row>`."""

OBJECTS = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("object_id", pa.string()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("lon", pa.float64()),
        pa.field("lat", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("terms", pa.list_(pa.int64())),
    ]
)
"""Accepted objects: as the table `objects`, with the row of the file in place of keys."""

_RANGES = {"lon": 180.0, "lat": 90.0}


@dataclass(frozen=True)
class ObjectOptions:
    """How the fields of objects are found in a file.

    columns     field to the file's columns, several joined by spaces; by default the one of the field's name
    constants   field to the value of all rows, or of the rows where it is blank if `columns` names the field too
    timezone    IANA name of the zone of times that carry none

    Raises UsageError for what makes no sense, SettingError for an unknown zone.
    """

    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    timezone: str = "UTC"
    max_text_bytes: int = 1_048_576

    def __post_init__(self) -> None:
        check_zone(self.timezone)
        for name in (*self.columns, *self.constants):
            if name not in FIELDS:
                raise UsageError(f"objects have no field {name!r}", "fields: " + ", ".join(FIELDS))
        for name, columns in self.columns.items():
            if not columns or not all(columns):
                raise UsageError(f"field {name} is given no column", f"--column {name}=NAME")
            if ROW in columns and (name != "object_id" or len(columns) > 1):
                raise UsageError(f"{ROW} stands for an id, alone", f"--column object_id={ROW}")
        for name, value in self.constants.items():
            self._check_constant(name, value)

    @property
    def sources(self) -> dict[str, list[str]]:
        """Field to the columns it is read from, for the reader; fields that need none are left out."""
        named = {name: list(self.columns.get(name, [name])) for name in FIELDS if not self._only_constant(name)}
        return {name: columns for name, columns in named.items() if columns != [ROW]}

    def _only_constant(self, name: str) -> bool:
        return name in self.constants and name not in self.columns

    def _check_constant(self, name: str, value: str) -> None:
        if name in _RANGES:
            number = numbers_of(pa.array([value]))[0]
            if not abs(number) <= _RANGES[name]:
                raise UsageError(f"constant {name}={value}: not a number within ±{_RANGES[name]:g}")
        if name == "ts":
            time = read_time(value, self.timezone)
            if time is None or not EARLIEST_US <= time < LATEST_US:
                reason = f"constant ts={value}: not a time of the years 1900 to 2199"
                raise UsageError(reason, "ISO 8601, such as 2026-01-01T00:00:00Z")


def parse_objects(chunk: Chunk, options: ObjectOptions) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The accepted objects of a chunk (OBJECTS) and the rejected rows (REJECTED), both in the order of rows.

    A row is rejected once, for the first of its fields at fault in the order of FIELDS; what the reader could not
    decode is among the rejected, so that both together are all rows of the chunk.
    """
    faults = Faults(len(chunk.rows))
    ids = _object_ids(chunk, options, faults)
    times = _times(chunk, options, faults)
    lons = _coordinates(chunk, options, faults, "lon")
    lats = _coordinates(chunk, options, faults, "lat")
    texts = _texts(chunk, options, faults)
    good = pa.array(faults.none)
    columns = [pa.array(chunk.rows), ids, times, lons, lats, texts]
    kept = [column.filter(good) for column in columns]
    accepted = pa.RecordBatch.from_arrays([*kept, terms_of(kept[-1])], schema=OBJECTS)
    return accepted, rejected_batch([*chunk.rejected, *faults.rejects(chunk.rows)])


def _raw(chunk: Chunk, options: ObjectOptions, faults: Faults, name: str) -> pa.Array:
    """The raw values of a field, from the columns and constants it is said to come from.

    Where a field is joined of several columns, those that hold no plain values are left out, and their rows marked.
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
        texts = texts_of(raw)
        raw = pc.if_else(pa.array(blank(texts)), options.constants[name], texts)
    return raw


def _joined(columns: list[pa.Array]) -> pa.Array:
    """The texts of several columns with spaces between, those that are null or empty left out."""
    # Two by two: pyarrow 26 loses rows where null_handling="skip" finds nothing but nulls.
    joined, *others = [pc.fill_null(texts_of(column), "") for column in columns]
    for text in others:
        both = pc.binary_join_element_wise(joined, text, " ")
        joined = pc.if_else(pc.equal(joined, ""), text, pc.if_else(pc.equal(text, ""), joined, both))
    return joined


def _plain_or_fault(raw: pa.Array, faults: Faults, name: str) -> bool:
    if not is_plain(raw.type):
        faults.mark(pc.is_valid(raw).to_numpy(zero_copy_only=False), name, "not_a_value", raw)
        return False
    return True


def _object_ids(chunk: Chunk, options: ObjectOptions, faults: Faults) -> pa.Array:
    if list(options.columns.get("object_id", ())) == [ROW]:
        rows = pc.cast(pa.array(chunk.rows), pa.string())
        return pc.binary_join_element_wise(Path(chunk.file).name, rows, ":")
    raw = _raw(chunk, options, faults, "object_id")
    plain = _plain_or_fault(raw, faults, "object_id")
    ids = texts_of(raw) if plain else pa.nulls(len(raw), pa.string())
    faults.mark(blank(ids), "object_id", "missing", raw)
    return ids


def _times(chunk: Chunk, options: ObjectOptions, faults: Faults) -> pa.Array:
    raw = _raw(chunk, options, faults, "ts")
    faults.mark(blank(raw), "ts", "missing", raw)
    times, read = times_of(raw, options.timezone)
    faults.mark(~read, "ts", "unreadable_time", raw)
    faults.mark((times < EARLIEST_US) | (times >= LATEST_US), "ts", "time_out_of_range", raw)
    return pa.array(times).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))


def _coordinates(chunk: Chunk, options: ObjectOptions, faults: Faults, name: str) -> pa.Array:
    raw = _raw(chunk, options, faults, name)
    _plain_or_fault(raw, faults, name)
    faults.mark(blank(raw), name, "missing", raw)
    numbers = numbers_of(raw)
    faults.mark(~np.isfinite(numbers), name, "not_a_number", raw)
    faults.mark(~(np.abs(numbers) <= _RANGES[name]), name, "out_of_range", raw)
    return pa.array(numbers)


def _texts(chunk: Chunk, options: ObjectOptions, faults: Faults) -> pa.Array:
    raw = _raw(chunk, options, faults, "text")
    plain = _plain_or_fault(raw, faults, "text")
    texts = pc.fill_null(texts_of(raw) if plain else pa.nulls(len(raw), pa.string()), "")
    too_long = pc.greater(pc.binary_length(texts), options.max_text_bytes).to_numpy(zero_copy_only=False)
    faults.mark(too_long, "text", "text_too_long", raw)
    return texts
