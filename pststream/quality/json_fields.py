"""Offer the fields of JSON Lines as columns, for the parsers that take many requests at once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.domain.raw_fields import RawPolygons
from pststream.kernels.parsing.json_members import LIST, NULL, OBJECT, REAL, TEXT, WHOLE, scan_lines
from pststream.kernels.parsing.json_polygons import find_polygons
from pststream.kernels.parsing.json_values import find_list_numbers, find_object_numbers, gather_texts, write_others
from pststream.quality.parse_times import parse_times
from pststream.quality.utf8 import is_utf8

_ASCII = 127
_ANY_BYTE = 255


class JsonField(NamedTuple):
    """The values of a field: what each is (a constant of json_members, 0: absent) and its slice of `data`."""

    data: np.ndarray
    kinds: np.ndarray
    starts: np.ndarray
    stops: np.ndarray

    @property
    def present(self) -> np.ndarray:
        """See RawField."""
        return (self.kinds != 0) & (self.kinds != NULL)

    @property
    def filled(self) -> np.ndarray:
        """See RawField."""
        return self.present & ((self.kinds != TEXT) | (self.starts < self.stops))

    def texts(self) -> pa.Array:
        """See RawField."""
        return self._gather(self.kinds == TEXT)

    def labels(self) -> pa.Array:
        """See RawField."""
        return self._gather((self.kinds == TEXT) | (self.kinds == WHOLE))

    def times(self, zone: str) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        return parse_times(self.labels(), zone)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        read = (self.kinds == WHOLE) | (self.kinds == REAL)
        numbers = np.zeros(len(read))
        numbers[read] = to_floats(self.data, np.column_stack([self.starts, self.stops])[read])
        return numbers, read

    def number_lists(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        spans, is_list = find_list_numbers(self.data, *self._slices(LIST), width)
        return self._numbers(spans, is_list), is_list

    def number_members(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """See RawField."""
        spans, is_object = find_object_numbers(self.data, *self._slices(OBJECT), *_names_as_bytes(names))
        return self._numbers(spans, is_object), is_object

    def polygons(self, longest: int) -> RawPolygons:
        """See RawField."""
        return parse_polygons(self.data, *self._slices(OBJECT), longest)

    def _slices(self, kind: int) -> tuple[np.ndarray, np.ndarray]:
        return np.where(self.kinds == kind, self.starts, -1), self.stops

    def _gather(self, chosen: np.ndarray) -> pa.Array:
        offsets, texts = gather_texts(self.data, self.starts, np.where(chosen, self.stops, self.starts))
        return _strings(offsets, texts, None if chosen.all() else chosen)

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

    def __getitem__(self, name: str) -> JsonField:
        nowhere = np.full(len(self), -1, np.int32)
        place = self.places[:, self.names[name]] if name in self.names else nowhere
        has = np.flatnonzero(place >= 0)
        kinds, values = np.zeros(len(self), np.int16), np.zeros((2, len(self)), np.int64)
        kinds[has], values[:, has] = self.kinds[place[has]], self.spans[place[has], 2:].T
        return JsonField(self.data, kinds, *values)

    def select(self, rows: np.ndarray) -> "JsonFields":
        """See RawFields."""
        some = {name: getattr(self, name)[rows] for name in ("plain", "places", "firsts", "lasts")}
        return replace(self, **some)

    def others(self, known: Collection[str]) -> tuple[pa.Array, np.ndarray]:
        """See RawFields."""
        is_known = np.zeros(len(self.names) + 1, bool)
        is_known[[place for name, place in self.names.items() if name in known]] = True
        is_other = ~is_known[self.fields]
        offsets, texts, has, written = write_others(
            self.data, self.firsts, self.lasts, self.kinds, self.spans, is_other
        )
        return _strings(offsets, texts, has), written


def scan_json(data: bytes, starts: np.ndarray, stops: np.ndarray, names: Collection[str]) -> JsonFields:
    """Find the fields of these names in lines: slices of `data`, int64[n]."""
    most_byte = _ANY_BYTE if is_utf8(data) else _ASCII
    content = np.frombuffer(data, np.uint8)
    plain, places, offsets, fields, kinds, spans = scan_lines(
        content, starts, stops, *_names_as_bytes(names), most_byte, data.count(b":")
    )
    numbers = {name: place for place, name in enumerate(names)}
    return JsonFields(content, numbers, plain, places, offsets[:-1], offsets[1:], fields, kinds, spans)


def parse_polygons(data: np.ndarray, starts: np.ndarray, stops: np.ndarray, longest: int) -> RawPolygons:
    """Parse slices of JSON as GeoJSON polygons; a start of -1: there is no value. A longer slice is not read."""
    read, polygons, rings, positions, spans = find_polygons(data, starts, stops, longest)
    return RawPolygons(read, polygons, rings, positions, to_floats(data, spans).reshape(-1, 2))


def to_floats(data: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Convert plain JSON numbers to the nearest float64[n]; `spans` int64[n,2] has the slice of each."""
    return pc.cast(_strings(*gather_texts(data, spans[:, 0], spans[:, 1])), pa.float64()).to_numpy()


def _strings(offsets: np.ndarray, texts: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """An Arrow column of texts with these buffers; null where not `valid` (bool[n])."""
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, [mask, pa.py_buffer(offsets), pa.py_buffer(texts)])


def _names_as_bytes(names: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [name.encode() for name in names]
    offsets = np.concatenate([[0], np.cumsum([len(name) for name in encoded])]).astype(np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), offsets
