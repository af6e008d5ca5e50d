"""Offer the fields of requests in JSON Lines or Parquet as columns; rows that are odd or not valid are marked."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrays import offsets_of, sum_slices
from pststream.base.arrow_columns import ATTRIBUTES, utf8_of
from pststream.input.attributes import BOOLEAN as TRUTH
from pststream.input.attributes import JSON, NUMBER, KeptColumns, Values, column_of
from pststream.input.parse_times import parse_times
from pststream.input.raw_values import is_utf8_block
from pststream.kernels.parsing.json_lines import (
    BOOLEAN,
    LIST,
    NULL,
    OBJECT,
    RARE,
    REAL,
    TEXT,
    WHOLE,
    FoundMembers,
    WantedFields,
    scan_lines,
)
from pststream.kernels.parsing.json_values import (
    find_list_numbers,
    find_object_numbers,
    find_polygons,
    find_values,
    gather_texts,
    write_others,
)
from pststream.queries.raw_fields import RawPolygons

_ATTRIBUTE_OF_KIND = np.zeros(RARE + 1, np.int8)
_ATTRIBUTE_OF_KIND[[WHOLE, REAL, BOOLEAN, LIST, OBJECT, RARE]] = NUMBER, NUMBER, TRUTH, JSON, JSON, JSON


class _JsonField(NamedTuple):
    """The values of a field (a RawField): what each is (a constant of json_lines, 0: absent), its slice of `data`."""

    data: np.ndarray
    kinds: np.ndarray
    starts: np.ndarray
    stops: np.ndarray

    @property
    def present(self) -> np.ndarray:
        return (self.kinds != 0) & (self.kinds != NULL)

    @property
    def filled(self) -> np.ndarray:
        return self.present & ((self.kinds != TEXT) | (self.starts < self.stops))

    def scalars(self) -> pa.Array:
        """Texts, and numbers as they are written (string); null where the field is absent or null."""
        return self._gather(self.present)

    def texts(self) -> pa.Array:
        return self._gather(self.kinds == TEXT)

    def labels(self) -> pa.Array:
        return self._gather((self.kinds == TEXT) | (self.kinds == WHOLE))

    def times(self, zone: str, unit: str | None) -> tuple[np.ndarray, np.ndarray]:
        return parse_times(self.labels(), zone, unit)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        read = (self.kinds == WHOLE) | (self.kinds == REAL)
        numbers = np.zeros(len(read))
        numbers[read] = to_floats(self.data, np.column_stack([self.starts, self.stops])[read])
        return numbers, read

    def number_lists(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        spans, is_list = find_list_numbers(self.data, *self._slices(LIST), width)
        return self._numbers(spans, is_list), is_list

    def number_members(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        spans, is_object = find_object_numbers(self.data, *self._slices(OBJECT), *_names_as_bytes(names))
        return self._numbers(spans, is_object), is_object

    def polygons(self, longest: int) -> RawPolygons:
        return parse_polygons(self.data, *self._slices(OBJECT), longest)

    def objects(self) -> tuple[pa.Array, np.ndarray]:
        chosen, written = self.kinds == OBJECT, ~self.filled
        if not chosen.any():
            return pa.nulls(len(chosen), pa.string()), written
        # Each object is a line of its own, whose members are found as those of a request are.
        lines, _ = utf8_of(pc.binary_join_element_wise(self._gather(chosen).filter(pa.array(chosen)), "", "\n"))
        read = next(scan_json(lines.tobytes(), (), int(np.count_nonzero(chosen))))
        texts, written[chosen] = read.fields.written()
        return texts.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen)), written

    def _slices(self, kind: int) -> tuple[np.ndarray, np.ndarray]:
        return np.where(self.kinds == kind, self.starts, -1), self.stops

    def _gather(self, chosen: np.ndarray) -> pa.Array:
        if chosen.all():
            return _strings(*gather_texts(self.data, self.starts, self.stops, self.kinds))
        stops = np.where(chosen, self.stops, self.starts)
        offsets, texts = gather_texts(self.data, self.starts, stops, self.kinds)
        return _strings(offsets, texts, chosen)

    def _numbers(self, spans: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        numbers = np.zeros(spans.shape[:2])
        numbers[chosen] = to_floats(self.data, spans[chosen].reshape(-1, 2)).reshape(-1, spans.shape[1])
        return numbers


@dataclass(frozen=True)
class JsonFields:
    """The members of n lines of JSON; the names of arrays are those of `scan_lines`.

    plain           bool[n]       whether the columns have a line; any other line is to be parsed by itself
    firsts, lasts   int64[n]      slice of the members of each line
    """

    data: np.ndarray
    names: dict[str, int]
    plain: np.ndarray
    places: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray
    fields: np.ndarray
    kinds: np.ndarray
    spans: np.ndarray

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, name: str) -> _JsonField:
        nowhere = np.full(len(self), -1, np.int32)
        places = self.places[:, self.names[name]] if name in self.names else nowhere
        return _JsonField(self.data, *find_values(places, self.kinds, self.spans))

    def select(self, rows: np.ndarray) -> "JsonFields":
        """See RawFields."""
        some = {name: getattr(self, name)[rows] for name in ("plain", "places", "firsts", "lasts")}
        return replace(self, **some)

    def have_others(self, known: Collection[str]) -> np.ndarray:
        """See RawFields."""
        is_known = np.zeros(len(self.names) + 1, bool)
        is_known[[index for name, index in self.names.items() if name in known]] = True
        others = offsets_of(~is_known[self.fields] & (self.kinds != NULL))
        return others[self.lasts] > others[self.firsts]

    def other_names(self, most: int) -> list[str]:
        """Return the names of members of no field, `most` of them at most."""
        starts, stops = (self.spans[self.fields < 0, border] for border in (0, 1))
        texts = _strings(*gather_texts(self.data, starts, stops, np.full(len(starts), TEXT, np.int16)))
        return [str(name) for name in texts.unique()[:most].to_pylist()]

    def attributes(self, kept: KeptColumns) -> pa.Array:
        """Return the members that are kept as attributes (ATTRIBUTES); all lines are plain."""
        fields, unknown = self.fields.astype(np.int64), np.flatnonzero(self.fields < 0)
        columns = list(self.names)
        if len(unknown):
            starts, stops = (self.spans[unknown, border] for border in (0, 1))
            keys = _strings(*gather_texts(self.data, starts, stops, np.full(len(starts), TEXT, np.int16)))
            encoded = keys.dictionary_encode()
            fields[unknown] = encoded.indices.to_numpy() + len(columns)
            columns += encoded.dictionary.to_pylist()
        is_kept = np.array([kept.name_of(column) is not None for column in columns], bool)
        if not is_kept.any():
            return pa.nulls(len(self), ATTRIBUTES)
        chosen = is_kept[fields] & (self.kinds != NULL)
        counts = sum_slices(chosen, np.concatenate([self.firsts, self.lasts[-1:]]))
        kinds, spans = self.kinds[chosen], self.spans[chosen]
        types = _ATTRIBUTE_OF_KIND[kinds]
        rare = np.flatnonzero(kinds == RARE)
        types[rare[self.data[spans[rare, 2]] < ord("[")]] = NUMBER
        texts = _strings(*gather_texts(self.data, *np.ascontiguousarray(spans[:, 2:].T), kinds))
        positions = np.cumsum(is_kept) - 1
        named = [column for column, is_one in zip(columns, is_kept) if is_one]
        return column_of(Values(counts, named, positions[fields[chosen]], types, texts), kept)

    def written(self) -> tuple[pa.Array, np.ndarray]:
        """Return each line as JSON without its nulls, null if it has no others, and which could be written: bool[n]."""
        offsets, texts, has, written = write_others(
            self.data, self.firsts, self.lasts, self.kinds, self.spans, self.kinds != NULL
        )
        return _strings(offsets, texts, has), self.plain & written


class JsonLines(NamedTuple):
    """Some lines that are not blank.

    numbers   int64[n]     number of line feeds in the data before each line
    lines     int64[n,2]   slice of the data of each line
    """

    numbers: np.ndarray
    lines: np.ndarray
    fields: JsonFields


def scan_json(
    block: bytes, names: Collection[str], most: int, limits: Sequence[int] | None = None, others: bool = False
) -> Iterator[JsonLines]:
    """Find the fields of these names in the lines of a block, at most `most` lines at a time.

    limits: of the first fields; only fields are read, and a line is plain only if the values of these fields are texts
    or numbers, and each number is below the limit of its field, or whole if the limit is 0. Without limits all members
    are read.
    others: whether members of no field are read too
    """
    data, every = np.frombuffer(block, np.uint8), limits is None
    limits = [0] * len(names) if limits is None else limits
    wanted = WantedFields(*_names_as_bytes(names), np.array(limits, np.int64), every, others)
    ordinals = {name: ordinal for ordinal, name in enumerate(names)}
    utf8 = is_utf8_block(memoryview(block))
    # A member and what ends it have five bytes at least; of the fields alone each line has one at most.
    room = len(data) // 5 if every or others else most * len(names)
    position, feeds = 0, 0
    while position < len(data):
        out = FoundMembers(
            lines=np.empty((most, 2), np.int64),
            numbers=np.empty(most, np.int64),
            plain=np.empty(most, bool),
            places=np.empty((most, len(names)), np.int32),
            offsets=np.empty(most + 1, np.int64),
            fields=np.empty(room, np.int16),
            kinds=np.empty(room, np.int16),
            spans=np.empty((room, 4), np.int64),
        )
        n, passed, position = scan_lines(data, position, utf8, wanted, out)
        if n:
            slices, m = out.offsets[: n + 1], out.offsets[n]
            members = (out.fields[:m], out.kinds[:m], out.spans[:m])
            by_line = (out.plain[:n], out.places[:n], slices[:-1], slices[1:])
            yield JsonLines(feeds + out.numbers[:n], out.lines[:n], JsonFields(data, ordinals, *by_line, *members))
        feeds += passed


def parse_polygons(data: np.ndarray, starts: np.ndarray, stops: np.ndarray, longest: int) -> RawPolygons:
    """Parse slices of JSON as GeoJSON polygons; a start of -1: there is no value. A longer slice is not read."""
    read, polygons, rings, positions, spans = find_polygons(data, starts, stops, longest)
    return RawPolygons(read, polygons, rings, positions, to_floats(data, spans).reshape(-1, 2))


def to_floats(data: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Convert plain JSON numbers to the nearest float64[n]; `spans` int64[n,2] has the slice of each."""
    return pc.cast(
        _strings(*gather_texts(data, spans[:, 0], spans[:, 1], np.zeros(len(spans), np.int16))), pa.float64()
    ).to_numpy()


def _strings(offsets: np.ndarray, texts: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """An Arrow column of texts with these buffers; null where not `valid` (bool[n])."""
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, [mask, pa.py_buffer(offsets), pa.py_buffer(texts)])


def _names_as_bytes(names: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [name.encode() for name in names]
    return np.frombuffer(b"".join(encoded), np.uint8), offsets_of([len(name) for name in encoded])


# Parquet

_ESCAPED = r'[\x00-\x1f"\\]'


class _ParquetField(NamedTuple):
    """The values of a field (a RawField) in the type of the file."""

    values: pa.Array

    @property
    def present(self) -> np.ndarray:
        return self.values.is_valid().to_numpy(zero_copy_only=False)

    @property
    def filled(self) -> np.ndarray:
        if not pa.types.is_string(self.values.type):
            return self.present
        return pc.fill_null(pc.not_equal(self.values, ""), False).to_numpy(zero_copy_only=False)

    def texts(self) -> pa.Array:
        return self.values if pa.types.is_string(self.values.type) else pa.nulls(len(self.values), pa.string())

    def labels(self) -> pa.Array:
        return self.values.cast(pa.string()) if pa.types.is_integer(self.values.type) else self.texts()

    def times(self, zone: str, unit: str | None) -> tuple[np.ndarray, np.ndarray]:
        return parse_times(self.values, zone, unit)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        if not _is_number(self.values.type):
            return np.zeros(len(self.values)), np.zeros(len(self.values), bool)
        numbers = _to_floats(self.values)
        return numbers, np.isfinite(numbers)

    def number_lists(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        values, kind = self.values, self.values.type
        numbers, is_list = np.zeros((len(values), width)), np.zeros(len(values), bool)
        if pa.types.is_list(kind) and _is_number(kind.value_type):
            is_list = pc.fill_null(pc.equal(pc.list_value_length(values), width), False).to_numpy(zero_copy_only=False)
            items = values.filter(pa.array(is_list)).flatten()
            numbers[is_list] = _to_floats(items).reshape(-1, width)
        return numbers, is_list & np.isfinite(numbers).all(axis=1)

    def number_members(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        kind = self.values.type
        indices = [kind.get_field_index(name) for name in names] if pa.types.is_struct(kind) else [-1]
        if not all(index >= 0 and _is_number(kind.field(index).type) for index in indices):
            return np.zeros((len(self.values), len(names))), np.zeros(len(self.values), bool)
        numbers = np.column_stack([_to_floats(pc.struct_field(self.values, name)) for name in names])
        alone = np.ones(len(numbers), bool)
        for index, part in enumerate(kind):
            if part.name not in names:
                alone &= pc.struct_field(self.values, [index]).is_null().to_numpy(zero_copy_only=False)
        return numbers, alone & np.isfinite(numbers).all(axis=1)

    def polygons(self, longest: int) -> RawPolygons:
        # Texts, or objects with just a type and coordinates.
        if not pa.types.is_string(self.values.type):
            return _polygons_of_objects(self.values)
        data, offsets = utf8_of(self.values)
        data = np.frombuffer(data.tobytes().replace(b"\n", b" "), np.uint8)  # the kernel reads no line feeds
        return parse_polygons(data, np.where(self.present, offsets[:-1], -1), offsets[1:], longest)

    def objects(self) -> tuple[pa.Array, np.ndarray]:
        # Values that are neither whole numbers nor texts without escapes are not written.
        kind, joined, written = self.values.type, pa.nulls(len(self.values), pa.string()), ~self.filled
        names = [part.name for part in kind] if pa.types.is_struct(kind) else []
        if not names or len(set(names)) < len(names):
            return joined, written
        written[:] = True
        for index, name in enumerate(names):
            column = pc.struct_field(self.values, [index])
            member = pc.binary_join_element_wise(f"{json.dumps(name, ensure_ascii=False)}: ", _as_json(column), "")
            written &= pc.or_(column.is_null(), member.is_valid()).to_numpy(zero_copy_only=False)
            both = pc.binary_join_element_wise(joined, member, ", ")
            joined = pc.coalesce(both, joined, member)
        return pc.binary_join_element_wise("{", joined, "}", ""), written


@dataclass(frozen=True)
class ParquetFields:
    """The columns of a chunk."""

    table: pa.RecordBatch

    @property
    def plain(self) -> np.ndarray:
        """See RawFields."""
        return np.ones(self.table.num_rows, bool)

    def __getitem__(self, name: str) -> _ParquetField:
        known = name in self.table.schema.names
        return _ParquetField(self.table.column(name) if known else pa.nulls(self.table.num_rows))

    def select(self, rows: np.ndarray) -> "ParquetFields":
        """See RawFields."""
        return ParquetFields(self.table.take(pa.array(rows)))

    def have_others(self, known: Collection[str]) -> np.ndarray:
        """See RawFields."""
        others = [name for name in self.table.schema.names if name not in known]
        return np.any([self[name].present for name in others] or [np.zeros(len(self.plain), bool)], axis=0)


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
    if not (3 <= len(nested) <= 4 and names.type in (pa.string(), pa.large_string()) and _is_number(values.type)):
        one = np.zeros(1, np.int64)
        return RawPolygons(np.zeros(rows, bool), np.zeros(rows + 1, np.int64), one, one, np.empty((0, 2)))
    name = "Polygon" if len(nested) == 3 else "MultiPolygon"
    read = pc.fill_null(pc.equal(names.cast(pa.string()), name), False).to_numpy(zero_copy_only=False)
    counts = nested[-4] if len(nested) == 4 else np.ones(rows, np.int64)
    polygons, rings, positions = map(offsets_of, (counts, *nested[-3:-1]))
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


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)
