"""Raw request fields as columns: what a reader offers to a kind or a shape that parses many requests at once."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa


class RawPolygons(NamedTuple):
    """GeoJSON Polygons and MultiPolygons of n rows, as they are written: rings may be open, short, out of range.

    read       bool[n]                whether a row has one, with a type and coordinates alone
    polygons   int64[n+1]             slice of the polygons of each row, in `rings`
    rings      int64[polygons+1]      slice of the rings of each polygon, in `positions`
    positions  int64[rings+1]         slice of the positions of each ring, in `points`
    points     float64[positions,2]   longitude and latitude; NaN where a position is not two or three numbers
    """

    read: np.ndarray
    polygons: np.ndarray
    rings: np.ndarray
    positions: np.ndarray
    points: np.ndarray


class RawField(Protocol):
    """The values of a field in n rows.

    A method returns the values of one form. Rows whose value has another form are marked, and left to the row parser:
    it alone decides which values are valid, so a form may leave out whatever is rare.
    """

    @property
    def present(self) -> np.ndarray:
        """Whether a row has the field, and not null: bool[n]."""

    @property
    def filled(self) -> np.ndarray:
        """Whether a row has the field, and neither null nor an empty text: bool[n]."""

    def texts(self) -> pa.Array:
        """Texts (string); null for any other value."""

    def labels(self) -> pa.Array:
        """Texts, and whole numbers as text (string); null for any other value."""

    def times(self, zone: str, unit: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Microseconds since 1970, int64[n], and which rows have a time: bool[n].

        zone, unit: of times without a zone, of numbers (None: it is not named)
        """

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Finite numbers, whole or not: the nearest float64[n], and which rows have one: bool[n]."""

    def number_lists(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Flat lists of `width` finite numbers: float64[n, width], and which rows have one: bool[n]."""

    def number_members(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Objects with just these members, all finite numbers: float64[n, names], and which rows have one: bool[n]."""

    def polygons(self, longest: int) -> RawPolygons:
        """GeoJSON polygons, of at most `longest` bytes if they are texts."""

    def objects(self) -> tuple[pa.Array, np.ndarray]:
        """Objects as JSON without their nulls (string, null without any member); bool[n]: one is written or absent."""


class RawFields(Protocol):
    """The fields of n requests."""

    @property
    def plain(self) -> np.ndarray:
        """Whether the columns have the fields of a row: bool[n]; any other row is left to the row parser."""

    def __getitem__(self, name: str) -> RawField:
        """Return the values of one field; a field that no row has is absent everywhere."""

    def select(self, rows: np.ndarray) -> "RawFields":
        """Return the fields of the rows with these numbers (from 0)."""

    def have_others(self, known: Collection[str]) -> np.ndarray:
        """Return which rows have a field that is neither in `known` nor null: bool[n]."""


class ParsedColumns(NamedTuple):
    """Columns parsed from raw fields.

    columns   by name, n rows each; undefined where not parsed
    parsed    bool[n]; the other rows are left to the row parser
    """

    columns: dict[str, pa.Array]
    parsed: np.ndarray
