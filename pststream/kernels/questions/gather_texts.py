"""Copy texts of some rows of a segment to their places among the texts of all segments."""

import numpy as np

from pststream.kernels.compile import leaf
from pststream.kernels.intrinsics import prefetch

AHEAD = 16
"""Texts between one that is read and one that is fetched."""


@leaf
def measure_texts(offsets: np.ndarray, rows: np.ndarray, places: np.ndarray, lengths: np.ndarray) -> None:
    """Write the bytes of each text to lengths[place]: int64[].

    offsets  int[n+1]  slice of each text of the segment
    rows, places  int64[m]
    """
    for at in range(len(rows)):
        if at + AHEAD < len(rows):
            prefetch(offsets, rows[at + AHEAD])
        lengths[places[at]] = offsets[rows[at] + 1] - offsets[rows[at]]


@leaf
def copy_texts(
    offsets: np.ndarray, texts: np.ndarray, rows: np.ndarray, places: np.ndarray, starts: np.ndarray, copied: np.ndarray
) -> None:
    """Copy each text (uint8[]) to copied[starts[place]:]; the other arguments are those of `measure_texts`."""
    for at in range(len(rows)):
        if at + AHEAD < len(rows):
            prefetch(texts, offsets[rows[at + AHEAD]])
        target = starts[places[at]]
        for byte in range(offsets[rows[at]], offsets[rows[at] + 1]):
            copied[target] = texts[byte]
            target += 1
