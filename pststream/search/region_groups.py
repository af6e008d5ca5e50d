"""Divide regions into groups of neighbours that are asked about the same window."""

import numpy as np


def group_regions(boxes: np.ndarray, windows: np.ndarray, rows: np.ndarray, most: int) -> list[np.ndarray]:
    """Return groups of at most `most` regions that lie close together and have one window: places, int64[] each.

    boxes    float64[q,4]   west, south, east, north of all regions
    windows  int64[q,w]     bounds of their windows
    rows     int64[n]       the regions to divide
    """
    order = rows[np.lexsort(windows[rows].T)]
    changes = np.flatnonzero((windows[order[1:]] != windows[order[:-1]]).any(axis=1)) + 1
    groups, waiting = list[np.ndarray](), [part for part in np.split(order, changes) if len(part)]
    while waiting:
        group = waiting.pop()
        if len(group) <= most:
            groups.append(group)
        else:
            waiting += _halves(boxes, group)
    return groups


def _halves(boxes: np.ndarray, group: np.ndarray) -> list[np.ndarray]:
    """Divide a group at the median of its middles, across the axis on which they lie further apart."""
    middles = boxes[group, :2] + boxes[group, 2:]
    axis = int(np.ptp(middles[:, 1]) > np.ptp(middles[:, 0]))
    order = np.argsort(middles[:, axis], kind="stable")
    return np.split(group[order], [len(group) // 2])


def box_around(boxes: np.ndarray) -> np.ndarray:
    """Return the box around boxes: float64[4]."""
    return np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
