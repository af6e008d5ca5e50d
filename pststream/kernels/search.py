"""Searches in sorted arrays."""

from pststream.kernels.compile import kernel


@kernel
def gallop(values, low, high, wanted):
    """First place in [low, high) whose value is at least `wanted`, else `high`; quick where it is near `low`."""
    step = 1
    probe = low
    while probe < high and values[probe] < wanted:
        low = probe + 1
        probe += step
        step *= 2
    return find(values, low, min(probe, high), wanted)


@kernel
def find(values, low, high, wanted):
    """First place in [low, high) whose value is at least `wanted`, else `high`; no branch to mispredict."""
    size = high - low
    while size > 1:
        half = size >> 1
        low += half * (values[low + half - 1] < wanted)
        size -= half
    return low + (size == 1 and values[low] < wanted)
