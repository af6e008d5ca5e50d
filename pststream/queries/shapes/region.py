"""Define the region of a subscription (boxes, shape, numbers), its limits, and the error for an invalid one."""

import math
from dataclasses import dataclass
from typing import Any

from pststream.base.errors import UsageError

_MOST_TEXT_OF_VERTEX = 200

Box = tuple[float, float, float, float]
"""West, south, east, north; degrees."""


class RegionError(UsageError):
    """A region that cannot be read: `field` of the request, and `reason`, a sentence; `missing`: no field gives one."""

    def __init__(self, field: str, reason: str, missing: bool = False) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
        self.missing = missing


@dataclass(frozen=True)
class Region:
    """A region over WGS84 longitudes and latitudes in degrees; its edges belong to it.

    boxes    bounding boxes; together they contain the region
    shape    name of the shape (queries/shapes/registry.py)
    numbers  the numbers of the shape, as its module defines them; empty where the boxes are the region
    """

    boxes: tuple[Box, ...]
    shape: str = "box"
    numbers: tuple[Any, ...] = ()


@dataclass(frozen=True)
class RegionLimits:
    """Bounds on the regions that are read; `max_polygon_vertices` counts the positions of all rings of a region."""

    max_polygon_vertices: int = 1_000

    @property
    def longest_text(self) -> int:
        """Number of characters of a region's JSON text, above which it is not parsed."""
        return _MOST_TEXT_OF_VERTEX * (self.max_polygon_vertices + 10)


DEFAULT_LIMITS = RegionLimits()


def read_number(field: str, name: str, value: Any, limit: float, advice: str = "") -> float:
    """A finite number between -limit and limit; raises RegionError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegionError(field, f"{name} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RegionError(field, f"{name} is not a finite number")
    if abs(number) > limit:
        shown = f"{number:.15g}" if float(f"{number:.15g}") == number else repr(number)
        raise RegionError(field, f"{name} {shown} is outside -{limit:g}..{limit:g}{advice}")
    return number
