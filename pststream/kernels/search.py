"""Search sorted arrays: first position of a value (galloping or binary search), all positions of many values."""

import numpy as np

from pststream.kernels.compile import leaf


@leaf
def gallop(values, low, high, wanted):
    """Return the first position in [low, high) whose value is at least `wanted`, else `high`; fast if near `low`."""
    step = 1
    probe = low
    while probe < high and values[probe] < wanted:
        low = probe + 1
        probe += step
        step *= 2
    return find(values, low, min(probe, high), wanted)


@leaf
def find_near(values, low, guess, wanted):
    """Return the first position from `low` on whose value is at least `wanted`, else the length; fast if near `guess`.

    guess: a position, or `low` - 1
    """
    if guess < low or values[guess] < wanted:
        return gallop(values, max(low, guess + 1), len(values), wanted)
    step, high, probe = 1, guess, guess - 1
    while probe >= low and values[probe] >= wanted:
        high = probe
        probe -= step
        step *= 2
    return find(values, max(low, probe + 1), high, wanted)


@leaf
def find(values, low, high, wanted):
    """Return the first position in [low, high) whose value is at least `wanted`, else `high`; without branches."""
    size = high - low
    while size > 1:
        half = size >> 1
        low += half * (values[low + half - 1] < wanted)
        size -= half
    return low + (size == 1 and values[low] < wanted)


def find_all_positions(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all positions of each of `wanted` in ascending `values`: int64[n], and their indexes in `wanted`."""
    low, high = (np.searchsorted(values, wanted, side) for side in ("left", "right"))
    widths = high - low
    within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
    return np.repeat(low, widths) + within, np.repeat(np.arange(len(wanted)), widths)
