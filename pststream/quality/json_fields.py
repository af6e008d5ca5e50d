"""Find the fields of JSON Lines and offer them as columns; lines that are odd or not valid are marked."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.domain.raw_fields import RawPolygons
from pststream.kernels.parsing.json_lines import LIST, NULL, OBJECT, REAL, TEXT, WHOLE, scan_lines
from pststream.kernels.parsing.json_polygons import find_polygons
from pststream.kernels.parsing.json_values import (
    find_list_numbers,
    find_object_numbers,
    find_values,
    gather_texts,
    write_others,
)
from pststream.quality.parse_times import parse_times
from pststream.quality.utf8 import is_utf8_block


class JsonField(NamedTuple):
    """The values of a field: what each is (a constant of json_lines, 0: absent) and its slice of `data`."""

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

    def scalars(self) -> pa.Array:
        """Texts, and numbers as they are written (string); null where the field is absent or null."""
        return self._gather(self.present)

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
        if chosen.all():
            return _strings(*gather_texts(self.data, self.starts, self.stops, self.kinds))
        stops = np.where(chosen, self.stops, self.starts)
        return _strings(*gather_texts(self.data, self.starts, stops, self.kinds), chosen)

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
        places = self.places[:, self.names[name]] if name in self.names else nowhere
        return JsonField(self.data, *find_values(places, self.kinds, self.spans))

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


class JsonLines(NamedTuple):
    """Some lines that are not blank.

    numbers   int64[n]     number of line feeds in the data before each line
    lines     int64[n,2]   slice of the data of each line
    """

    numbers: np.ndarray
    lines: np.ndarray
    fields: JsonFields


def scan_json(
    block: bytes, names: Collection[str], most: int, limits: Sequence[int] | None = None
) -> Iterator[JsonLines]:
    """Find the fields of these names in the lines of a block, at most `most` lines at a time.

    limits: of each field; only the fields are found, and a line is plain only if their values are texts or numbers, and
    each number is below the limit of its field, or whole if the limit is 0. Without limits all members are found.
    """
    data, encoded, every = np.frombuffer(block, np.uint8), _names_as_bytes(names), limits is None
    bounds = np.array(limits or [0] * len(names), np.int64)
    ordinals = {name: ordinal for ordinal, name in enumerate(names)}
    utf8 = is_utf8_block(memoryview(block))
    # A member has a colon; of the fields alone each line has one at most.
    room = np.count_nonzero(data == ord(":")) if every else most * len(names)
    position, feeds = 0, 0
    while position < len(data):
        lines, numbers, plain = np.empty((most, 2), np.int64), np.empty(most, np.int64), np.empty(most, bool)
        places, offsets = np.empty((most, len(names)), np.int32), np.empty(most + 1, np.int64)
        fields, kinds, spans = np.empty(room, np.int16), np.empty(room, np.int16), np.empty((room, 4), np.int64)
        out = (lines, numbers, plain, places, offsets, fields, kinds, spans)
        n, passed, position = scan_lines(data, position, utf8, *encoded, bounds, every, *out)
        if n:
            slices, m = offsets[: n + 1], offsets[n]
            members = (fields[:m], kinds[:m], spans[:m])
            found = JsonFields(data, ordinals, plain[:n], places[:n], slices[:-1], slices[1:], *members)
            yield JsonLines(feeds + numbers[:n], lines[:n], found)
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
    offsets = np.concatenate([[0], np.cumsum([len(name) for name in encoded])]).astype(np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), offsets
