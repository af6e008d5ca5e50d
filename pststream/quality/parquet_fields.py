"""Offer the fields of a Parquet chunk as columns, for the parsers that take many requests at once."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.domain.raw_fields import JsonTexts
from pststream.quality.parse_times import parse_times

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
        """See RawField; an object may have other members too."""
        kind = self.values.type
        if not _has_numbers(kind, names):
            return np.zeros((len(self.values), len(names))), np.zeros(len(self.values), bool)
        numbers = np.column_stack([_to_floats(pc.struct_field(self.values, name)) for name in names])
        return numbers, np.isfinite(numbers).all(axis=1)

    def json_objects(self) -> JsonTexts:
        """See RawField."""
        nowhere = np.full(len(self.values), -1, np.int64)
        return JsonTexts(np.empty(0, np.uint8), nowhere, nowhere)


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


def _to_floats(values: pa.Array) -> np.ndarray:
    """The nearest float64; NaN for null."""
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), numbers, np.nan)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _has_numbers(kind: pa.DataType, names: Sequence[str]) -> bool:
    """Whether a type is an object that has each of these members once, as a number."""
    places = [kind.get_field_index(name) for name in names] if pa.types.is_struct(kind) else [-1]
    return all(place >= 0 and _is_number(kind.field(place).type) for place in places)
