"""Compute the Hilbert curve over a raster: the order of all blocks, and the position of given blocks on the curve."""

import numpy as np


def hilbert_walk(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return column and row of each block in the order of the curve: int64[columns * rows] each.

    For a raster that is not a square of a power of two, the curve of the next larger square is used, without the blocks
    outside the raster.

    Source: the usual bit-by-bit construction; see J. K. Lawder, "Calculation of mappings between one and n-dimensional
    values using the Hilbert space-filling curve", 2000.
    """
    rank = hilbert_rank(np.arange(columns * rows) % columns, np.arange(columns * rows) // columns, max(columns, rows))
    order = np.argsort(rank, kind="stable")
    return order % columns, order // columns


def hilbert_rank(x: np.ndarray, y: np.ndarray, side: int) -> np.ndarray:
    """Return the position on the curve of each block (x, y): int64.

    The curve fills a square whose side is the least power of two that is at least `side`.
    """
    x, y = x.astype(np.int64), y.astype(np.int64)
    rank = np.zeros_like(x)
    half = 1 << (max(side - 1, 1).bit_length() - 1)
    last = 2 * half - 1
    while half > 0:
        right, upper = (x & half) > 0, (y & half) > 0
        rank += half * half * ((3 * right) ^ upper)
        flip = right & ~upper
        x, y = np.where(flip, last - x, x), np.where(flip, last - y, y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        half >>= 1
    return rank
