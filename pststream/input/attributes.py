"""Make the column `attributes` of objects: the columns of a file that are no field, by name, with their types.

All readers find the values of a chunk of rows as flat arrays, row by row, and `column_of` makes the column of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import ATTRIBUTE_TYPES, ATTRIBUTES, utf8_of
from pststream.input.parse_times import LAST_US, parse_times
from pststream.input.raw_values import LONGEST_NUMBER, is_longer
from pststream.kernels.parsing.json_values import gather_texts

TEXT, NUMBER, BOOLEAN, TIME, JSON = range(len(ATTRIBUTE_TYPES))
"""Ordinals of ATTRIBUTE_TYPES."""

MAX_NAMES, MAX_BYTES = 256, 1 << 16
"""Attributes of an object, and bytes of their names and values together, at most."""

SOURCE = "source"
"""The attribute with the name of the source in the settings."""

_NUMBER = "^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?$"
_YEAR_1_US = -62_135_596_800_000_000


@dataclass(frozen=True)
class KeptColumns:
    """Which columns of a file are kept as attributes, and how.

    fields    columns that are a field by themselves, which are not kept
    reserved  names of fields: a column with such a name gets a `_` in front
    names     the only columns to keep; None: all
    types     type of columns (ATTRIBUTE_TYPES), in which their texts and numbers are read where they can be
    source    name of the source, an attribute of each row; empty: none
    timezone, time_unit  of times, as in ObjectOptions
    is_retry  the file has a column `attributes`, which is taken as it is
    """

    fields: frozenset[str]
    reserved: frozenset[str] = frozenset()
    names: frozenset[str] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    timezone: str = "UTC"
    time_unit: str | None = None
    is_retry: bool = False

    def name_of(self, column: str) -> str | None:
        """Return the attribute of a column; None if it is not kept.

        Names that begin with `_` and go on as a field's get one more, so that no two columns have one name.
        """
        if not column or column in self.fields or (self.names is not None and column not in self.names):
            return None
        bare = column.lstrip("_")
        return f"_{column}" if bare in self.reserved or (self.source and bare == SOURCE) else column


class Values(NamedTuple):
    """Attributes of n rows, m altogether, row by row.

    counts   int64[n]   attributes of each row
    columns             names of columns, which are all kept
    chosen   int64[m]   the column of each attribute
    types    int8[m]    ordinals of ATTRIBUTE_TYPES
    texts    string[m]  values, without nulls
    """

    counts: np.ndarray
    columns: Sequence[str]
    chosen: np.ndarray
    types: np.ndarray
    texts: pa.Array


def column_of(values: Values, kept: KeptColumns) -> pa.Array:
    """Return the column (ATTRIBUTES) of n rows; null where a row has none."""
    counts, columns, chosen, types, texts = values
    for name, kind in kept.types.items():
        if name in columns:
            types, texts = _retype(types, texts, np.flatnonzero(chosen == columns.index(name)), kind, kept)
    names = [kept.name_of(name) for name in columns]
    if kept.source:
        # The source is the first attribute of each row.
        starts = offsets_of(counts)[:-1]
        order = np.insert(np.arange(len(chosen)), starts, len(chosen))
        texts = pa.concat_arrays([texts, pa.array([kept.source])]).take(pa.array(order))
        chosen, types = np.insert(chosen, starts, len(names)), np.insert(types, starts, TEXT)
        names, counts = [*names, SOURCE], counts + 1
    keys, kinds = _take([name or "" for name in names], chosen), _take(ATTRIBUTE_TYPES, types)
    items = pa.StructArray.from_arrays([kinds, texts], fields=list(ATTRIBUTES.item_type))
    mask = None if counts.all() else pa.array(counts == 0)
    offsets = pa.array(offsets_of(counts).astype(np.int32))
    return pa.MapArray.from_arrays(offsets, keys, items, ATTRIBUTES, mask=mask)


def _take(names: Sequence[str], chosen: np.ndarray) -> pa.Array:
    """Return some of a few names, by their numbers (integers, [n]): string[n]; a kernel does it faster than Arrow."""
    data, offsets = utf8_of(pa.array(names, pa.string()))
    starts, stops = offsets[:-1][chosen], offsets[1:][chosen]
    positions, content = gather_texts(data, starts, stops, np.zeros(len(chosen), np.int16))
    return pa.StringArray.from_buffers(len(chosen), pa.py_buffer(positions), pa.py_buffer(content))


def too_long(column: pa.Array) -> np.ndarray:
    """Return which rows of a column that `column_of` made have too many names, or too many bytes: bool[n]."""
    offsets = column.offsets.to_numpy()
    size = np.zeros(len(column), np.int64)
    for texts in (column.keys, column.items.field("value")):
        positions = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        if len(texts):
            size += np.diff(positions[offsets])
    return (np.diff(offsets) > MAX_NAMES) | (size > MAX_BYTES)


def of_table(table: pa.RecordBatch, kept: KeptColumns) -> pa.Array:
    """Return the attributes of rows of Parquet: those of all columns, which are kept. Null values are absent."""
    parts = [_of_column(column, kept) for column in table.columns]
    present = np.column_stack([pc.is_valid(texts).to_numpy(zero_copy_only=False) for _, texts in parts])
    rows, chosen = np.nonzero(present)
    types = np.column_stack([types for types, _ in parts])[present]
    texts = pa.concat_arrays([texts for _, texts in parts]).take(pa.array(chosen * len(table) + rows))
    return column_of(Values(present.sum(axis=1), table.schema.names, chosen, types, texts), kept)


def _of_column(column: pa.Array, kept: KeptColumns) -> tuple[np.ndarray, pa.Array]:
    """Return the types (int8[n]) and texts of a column of Parquet; null where a value is null, NaN or infinite."""
    of, kind = pa.types, column.type
    if of.is_timestamp(kind) or of.is_date(kind):
        times, _ = parse_times(column, kept.timezone)
        known, texts = _iso(times)
        texts = pc.if_else(pa.array(known), texts, column.cast(pa.string()))
        texts = pc.if_else(pc.is_valid(column), texts, pa.scalar(None, pa.string()))
        return np.where(known, TIME, TEXT).astype(np.int8), texts
    if of.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if of.is_nested(kind):
        texts = pa.array([_json_of(column, row) for row in range(len(column))], pa.string())
        return np.full(len(column), JSON, np.int8), texts
    is_number = of.is_floating(kind) or of.is_integer(kind) or of.is_decimal(kind)
    plain = NUMBER if is_number else BOOLEAN if of.is_boolean(kind) else TEXT
    return np.full(len(column), plain, np.int8), column.cast(pa.string())


def _json_of(column: pa.Array, row: int) -> str | None:
    scalar = column[row]
    if not scalar.is_valid:
        return None
    try:
        value = finite(_value_of(scalar))
    except (ValueError, OverflowError):  # such as a time after the year 9999
        value = " ".join(column.slice(row, 1).to_string().split())
    return _json(value)


def _value_of(scalar: pa.Scalar) -> Any:
    """Return a value as JSON has it; the keys of maps are texts, and of one key that is repeated the last value."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_map(kind):
        keys, values = scalar.values.field(0), scalar.values.field(1)
        return {_key_of(key): _value_of(value) for key, value in zip(keys, values)}
    if pa.types.is_struct(kind):
        return {field.name: _value_of(scalar[place]) for place, field in enumerate(kind)}
    if pa.types.is_nested(kind) and hasattr(scalar, "values"):
        return [_value_of(one) for one in scalar.values]
    return scalar.as_py()


def _key_of(scalar: pa.Scalar) -> str:
    text = _json(_value_of(scalar))
    return str(json.loads(text)) if text.startswith('"') else text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_show)


def _show(value: Any) -> str:
    """Return a value that JSON has no form for as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def finite(value: Any) -> Any:
    """Return a value of JSON with null for NaN and infinities, which JSON has not."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _retype(
    types: np.ndarray, texts: pa.Array, rows: np.ndarray, kind: str, kept: KeptColumns
) -> tuple[np.ndarray, pa.Array]:
    """Give the texts and numbers among some attributes (int64[]) the type that a source names, where they have it."""
    rows = rows[(types[rows] == TEXT) | (types[rows] == NUMBER)]
    types, some = types.copy(), texts.take(pa.array(rows))
    if kind == "text":
        types[rows] = TEXT
    elif kind == "number":
        is_number = pc.match_substring_regex(some, _NUMBER).to_numpy(zero_copy_only=False)
        types[rows[is_number & ~is_longer(some, LONGEST_NUMBER)]] = NUMBER
    else:
        if kind == "boolean":
            read, new = some, pc.ascii_lower(some)
            read = pc.is_in(new, pa.array(["true", "false"])).to_numpy(zero_copy_only=False)
        else:
            times, is_time = parse_times(some, kept.timezone, kept.time_unit)
            read, new = _iso(times)
            read &= is_time
        chosen = np.zeros(len(texts), bool)
        chosen[rows[read]] = True
        types[chosen] = ATTRIBUTE_TYPES.index(kind)
        texts = pc.replace_with_mask(texts, pa.array(chosen), new.filter(pa.array(read)))
    return types, texts


def _iso(times: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """Return which times (microseconds, int64[n]) lie in the years 1 to 9999, and all as ISO 8601 with microseconds."""
    known = (times >= _YEAR_1_US) & (times <= LAST_US)
    texts = pa.array(np.where(known, times, 0)).cast(pa.timestamp("us")).cast(pa.string())
    return known, pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), "Z", "")
