"""Choose for each of 100 regions whether workload Q3 draws its subscriptions as Q1 or as Q2, and let regions switch.

Source: PS2Stream section VI-C (Q3) and VI-D: "every interval ..., the types of queries in 10% of the regions
switch".
"""

from functools import lru_cache

import numpy as np

SIDE = 10
REGIONS = SIDE * SIDE
SWITCHED = REGIONS // 10


def region_of(lon: np.ndarray, lat: np.ndarray, bounds: tuple[float, float, float, float]) -> np.ndarray:
    """Return the region of each point; regions divide `bounds` (west, south, east, north) equally in degrees: int64."""
    west, south, east, north = bounds
    column = np.floor((lon - west) * (SIDE / max(east - west, 1e-9)))
    row = np.floor((lat - south) * (SIDE / max(north - south, 1e-9)))
    return (np.clip(row, 0, SIDE - 1) * SIDE + np.clip(column, 0, SIDE - 1)).astype(np.int64)


def draws_q2(seed: int, interval: int = 0) -> np.ndarray:
    """Mark the regions that draw Q2 (large squares, rarer keywords): bool[REGIONS].

    They are random in interval 0; with each further interval a tenth of the regions switches.
    """
    return _drift(seed).after(interval)


class _Drift:
    """The regions of a seed at the last interval returned; a later one costs a switch for each interval between."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        """Draw interval 0."""
        self._rng = np.random.default_rng([self._seed, 3])
        self._interval, self._wide = 0, self._rng.random(REGIONS) < 0.5

    def after(self, interval: int) -> np.ndarray:
        """Return the regions after a number of intervals."""
        if interval < self._interval:
            self._begin()
        while self._interval < interval:
            switched = self._rng.choice(REGIONS, SWITCHED, replace=False)
            self._wide[switched] = ~self._wide[switched]
            self._interval += 1
        return self._wide.copy()


@lru_cache(maxsize=4)
def _drift(seed: int) -> _Drift:
    """Return the drift of a seed, which remembers its last interval."""
    return _Drift(seed)
