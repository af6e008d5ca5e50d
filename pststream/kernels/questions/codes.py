"""Pack numbers into three or four bytes each, number places in Morton order, and measure distances.

Packed numbers are uint8[n + 1, width], the least byte first: three bytes each, or four if one is larger. A number is
read with one load of four bytes, wherever it begins; so there is a row of zeros after the last.
"""

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.matching.contains_point import haversine, metres_of
from pststream.kernels.matching.index_cells import interleave


def pack_numbers(numbers: np.ndarray, below: int) -> np.ndarray:
    """Return numbers from 0 up to `below` in bytes: uint8[n + 1, width]; `numbers` int32[n]."""
    packed = np.zeros((len(numbers) + 1, 3 if below <= 1 << 24 else 4), np.uint8)
    _write_bytes(numbers, packed)
    return packed


@leaf
def _write_bytes(numbers, packed):
    for place in range(len(numbers)):
        number = numbers[place]
        for byte in range(packed.shape[1]):
            packed[place, byte] = (number >> (8 * byte)) & 0xFF


def unpack_numbers(packed: np.ndarray) -> np.ndarray:
    """Return the numbers of some rows of packed ones: int32[n]; `packed` uint8[n, width]."""
    wide = np.zeros((len(packed), 4), np.uint8)
    wide[:, : packed.shape[1]] = packed
    return wide.view("<u4")[:, 0].astype(np.int32)


@intrinsic
def _four_bytes(context: Any, packed: Any, byte: Any) -> Any:
    """Emit a load of four bytes of an array from a byte on, at any address."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
        address = builder.gep(start, [arguments[1]], source_etype=ir.IntType(8))
        loaded = builder.load(builder.bitcast(address, ir.IntType(32).as_pointer()), typ=ir.IntType(32))
        loaded.align = 1
        return builder.zext(loaded, ir.IntType(64))

    return types.int64(packed, types.intp), emit


def plain_number_at(packed, place):
    """Return one number, int64, byte by byte."""
    number = np.int64(packed[place, 0]) | np.int64(packed[place, 1]) << 8 | np.int64(packed[place, 2]) << 16
    if packed.shape[1] == 4:
        number |= np.int64(packed[place, 3]) << 24
    return number


if sys.byteorder == "little":

    @kernel
    def number_at(packed, place):
        """Return one number, int64."""
        width = packed.shape[1]
        return _four_bytes(packed, place * width) & ((np.int64(1) << (8 * width)) - 1)
else:
    number_at = kernel(plain_number_at)


@leaf
def find_number(packed, low, high, wanted):
    """Return the first place in [low, high) of ascending numbers with one that is at least `wanted`, else `high`."""
    size = high - low
    while size > 1:
        half = size >> 1
        low += half * (number_at(packed, low + half - 1) < wanted)
        size -= half
    return low + (size == 1 and number_at(packed, low) < wanted)


@leaf
def gallop_number(packed, low, high, wanted):
    """Return what `find_number` returns; fast if it is near `low`."""
    step, probe = 1, low
    while probe < high and number_at(packed, probe) < wanted:
        low = probe + 1
        probe += step
        step *= 2
    return find_number(packed, low, min(probe, high), wanted)


# Places of a world of 65,536 columns and rows; the codes in a cell of level l have their 2 l leading bits in common.
# Columns and rows never decrease with longitude and latitude, whatever the rounding: a box covers exactly those between
# the columns and rows of its corners.

LEVELS = 16
"""Level of the finest cells: a place is a cell of this level."""

LAST = (1 << LEVELS) - 1


@kernel
def place_column(lon: float) -> int:
    """Return the column of a longitude, 0 to LAST."""
    return min(max(int((lon + 180.0) * (65536.0 / 360.0)), 0), LAST)


@kernel
def place_row(lat: float) -> int:
    """Return the row of a latitude, 0 to LAST, counted from the south."""
    return min(max(int((lat + 90.0) * (65536.0 / 180.0)), 0), LAST)


@kernel
def place_codes(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the Morton codes of points in degrees: uint32[n]; `lon`, `lat` float64[n]."""
    codes = np.empty(len(lon), np.uint32)
    for row in range(len(lon)):
        codes[row] = interleave(place_column(lon[row]), place_row(lat[row]))
    return codes


@kernel
def column_of_code(code: int) -> int:
    """Return the column of a code: its bits at even places."""
    return _gather(code)


@kernel
def row_of_code(code: int) -> int:
    """Return the row of a code: its bits at odd places."""
    return _gather(code >> 1)


@kernel
def _gather(value: int) -> int:
    """Return the bits at even places, side by side: each line closes gaps of twice the width."""
    value &= 0x5555555555555555
    value = (value | (value >> 1)) & 0x3333333333333333
    value = (value | (value >> 2)) & 0x0F0F0F0F0F0F0F0F
    value = (value | (value >> 4)) & 0x00FF00FF00FF00FF
    value = (value | (value >> 8)) & 0x0000FFFF0000FFFF
    return (value | (value >> 16)) & 0xFFFFFFFF


@kernel
def distances_m(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the great-circle distance of each point to its place, metres: float64[n]; both float64[n,2]."""
    metres = np.empty(len(points), np.float64)
    for at in range(len(points)):
        metres[at] = metres_of(haversine(points[at, 0], points[at, 1], places[at, 0], places[at, 1]))
    return metres
