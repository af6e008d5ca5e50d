"""Offer the fields of a Parquet chunk as columns, for the parsers that take many requests at once."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.domain.raw_fields import RawPolygons
from pststream.quality.json_fields import parse_polygons
from pststream.quality.parse_times import parse_times
from pststream.text.buffers import utf8_of

_ESCAPED = r'[\x00-\x1f"\\]'


class ParquetField(NamedTuple):
    """The values of a field in the type of the file."""

    values: pa.Array

    @property
    def present(self) -> np.ndarray:
        """See RawField."""
        return self.values.is_valid().to_numpy(zero_copy_only=False)

    @property
    def filled(self) -> np.ndarray:
        """See RawField."""
        if not pa.types.is_string(self.values.type):
            return self.present
        return pc.fill_null(pc.not_equal(self.values, ""), False).to_numpy(zero_copy_only=False)

    def texts(self) -> pa.Array:
        """See RawField."""
        return self.values if pa.types.is_string(self.values.type) else pa.nulls(len(self.values), pa.string())

    def labels(self) -> pa.Array:
        """See RawField."""
        return self.values.cast(pa.string()) if pa.types.is_integer(self.values.type) else self.texts()

    def times(self, zone: str) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        return parse_times(self.values, zone)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        if not _is_number(self.values.type):
            return np.zeros(len(self.values)), np.zeros(len(self.values), bool)
        numbers = _to_floats(self.values)
        return numbers, np.isfinite(numbers)

    def number_lists(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        values, kind = self.values, self.values.type
        numbers, is_list = np.zeros((len(values), width)), np.zeros(len(values), bool)
        if pa.types.is_list(kind) and _is_number(kind.value_type):
            is_list = pc.fill_null(pc.equal(pc.list_value_length(values), width), False).to_numpy(zero_copy_only=False)
            items = values.filter(pa.array(is_list)).flatten()
            numbers[is_list] = _to_floats(items).reshape(-1, width)
        return numbers, is_list & np.isfinite(numbers).all(axis=1)

    def number_members(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        kind = self.values.type
        if not _has_numbers(kind, names):
            return np.zeros((len(self.values), len(names))), np.zeros(len(self.values), bool)
        numbers = np.column_stack([_to_floats(pc.struct_field(self.values, name)) for name in names])
        alone = np.ones(len(numbers), bool)
        for place, part in enumerate(kind):
            if part.name not in names:
                alone &= pc.struct_field(self.values, [place]).is_null().to_numpy(zero_copy_only=False)
        return numbers, alone & np.isfinite(numbers).all(axis=1)

    def polygons(self, longest: int) -> RawPolygons:
        """See RawField; texts, or objects with just a type and coordinates."""
        if not pa.types.is_string(self.values.type):
            return _polygons_of_objects(self.values)
        data, offsets = utf8_of(self.values)
        data = np.frombuffer(data.tobytes().replace(b"\n", b" "), np.uint8)  # the kernel reads no line feeds
        return parse_polygons(data, np.where(self.present, offsets[:-1], -1), offsets[1:], longest)


@dataclass(frozen=True)
class ParquetFields:
    """The columns of a chunk."""

    table: pa.RecordBatch

    @property
    def plain(self) -> np.ndarray:
        """See RawFields."""
        return np.ones(self.table.num_rows, bool)

    def __getitem__(self, name: str) -> ParquetField:
        known = name in self.table.schema.names
        return ParquetField(self.table.column(name) if known else pa.nulls(self.table.num_rows))

    def select(self, rows: np.ndarray) -> "ParquetFields":
        """See RawFields."""
        return ParquetFields(self.table.take(pa.array(rows)))

    def others(self, known: Collection[str]) -> tuple[pa.Array, np.ndarray]:
        """See RawFields; values that are not texts without escapes or whole numbers are not written."""
        joined, written = pa.nulls(self.table.num_rows, pa.string()), np.ones(self.table.num_rows, bool)
        for name in self.table.schema.names:
            if name in known:
                continue
            column = self.table.column(name)
            member = pc.binary_join_element_wise(f"{json.dumps(name, ensure_ascii=False)}: ", _as_json(column), "")
            written &= pc.or_(column.is_null(), member.is_valid()).to_numpy(zero_copy_only=False)
            both = pc.binary_join_element_wise(joined, member, ", ")
            joined = pc.coalesce(both, joined, member)
        return pc.binary_join_element_wise("{", joined, "}", ""), written


def _as_json(column: pa.Array) -> pa.Array:
    """Values as JSON texts; null for null, and for values that are not written here."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.string())
    if not pa.types.is_string(column.type):
        return pa.nulls(len(column), pa.string())
    plain = pc.invert(pc.match_substring_regex(column, _ESCAPED))
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    return pc.if_else(plain, quoted, pa.scalar(None, pa.string()))


def _polygons_of_objects(values: pa.Array) -> RawPolygons:
    """Return the polygons of objects; none if their type is not that of GeoJSON polygons with just two members."""
    rows, kind = len(values), values.type
    nested: list[np.ndarray] = []
    if pa.types.is_struct(kind) and sorted(part.name for part in kind) == ["coordinates", "type"]:
        names, values = pc.struct_field(values, "type"), pc.struct_field(values, "coordinates")
        while pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            # A null counts as an empty list.
            nested.append(pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64))
            values = values.flatten()
    if not 3 <= len(nested) <= 4 or not _is_string(names.type) or not _is_number(values.type):
        one = np.zeros(1, np.int64)
        return RawPolygons(np.zeros(rows, bool), np.zeros(rows + 1, np.int64), one, one, np.empty((0, 2)))
    name = "Polygon" if len(nested) == 3 else "MultiPolygon"
    read = pc.fill_null(pc.equal(names.cast(pa.string()), name), False).to_numpy(zero_copy_only=False)
    counts = nested[-4] if len(nested) == 4 else np.ones(rows, np.int64)
    polygons, rings, positions = (
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]) for lengths in (counts, *nested[-3:-1])
    )
    return RawPolygons(read, polygons, rings, positions, _points(nested[-1], _to_floats(values)))


def _points(widths: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return longitude and latitude of lists of so many numbers; NaN unless there are two, or three, all finite."""
    starts = np.cumsum(widths) - widths
    points = np.full((len(widths), 2), np.nan)
    points[widths == 2] = numbers[starts[widths == 2, None] + [0, 1]]
    high = np.flatnonzero(widths == 3)
    high = high[np.isfinite(numbers[starts[high] + 2])]
    points[high] = numbers[starts[high, None] + [0, 1]]
    return points


def _to_floats(values: pa.Array) -> np.ndarray:
    """The nearest float64; NaN for null."""
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), numbers, np.nan)


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _has_numbers(kind: pa.DataType, names: Sequence[str]) -> bool:
    """Whether a type is an object that has each of these members once, as a number."""
    places = [kind.get_field_index(name) for name in names] if pa.types.is_struct(kind) else [-1]
    return all(place >= 0 and _is_number(kind.field(place).type) for place in places)
