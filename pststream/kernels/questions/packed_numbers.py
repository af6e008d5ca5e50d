"""Store numbers in three bytes each, or in four if one is larger: uint8[n, width], the least byte first."""

import numpy as np

from pststream.kernels.compile import kernel


def pack_numbers(numbers: np.ndarray, below: int) -> np.ndarray:
    """Return numbers from 0 up to `below` in bytes: uint8[n, width]; `numbers` int32[n]."""
    width = 3 if below <= 1 << 24 else 4
    return np.ascontiguousarray(numbers.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)[:, :width])


def unpack_numbers(packed: np.ndarray) -> np.ndarray:
    """Return the numbers that `pack_numbers` was given: int32[n]."""
    wide = np.zeros((len(packed), 4), np.uint8)
    wide[:, : packed.shape[1]] = packed
    return wide.view("<u4")[:, 0].astype(np.int32)


@kernel
def number_at(packed, place):
    """Return one number, int64."""
    number = np.int64(packed[place, 0]) | np.int64(packed[place, 1]) << 8 | np.int64(packed[place, 2]) << 16
    if packed.shape[1] == 4:
        number |= np.int64(packed[place, 3]) << 24
    return number


@kernel
def find_number(packed, low, high, wanted):
    """Return the first place in [low, high) of ascending numbers with one that is at least `wanted`, else `high`."""
    size = high - low
    while size > 1:
        half = size >> 1
        low += half * (number_at(packed, low + half - 1) < wanted)
        size -= half
    return low + (size == 1 and number_at(packed, low) < wanted)
