"""Store numbers in three bytes each, or in four if one is larger: uint8[n + 1, width], the least byte first.

A number is read with one load of four bytes, wherever it begins; so there is a row of zeros after the last.
"""

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pststream.kernels.compile import kernel, leaf


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
