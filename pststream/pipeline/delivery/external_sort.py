"""Rows of whole numbers in their order, more than fit into memory: sorted runs on disk, merged portion by portion."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

RUN_ROWS = 1_000_000


class SortedRows:
    """Takes rows as int64[columns, n], gives them sorted by the first column, then the second, and so on.

    folder: for runs, an empty one; nothing is written unless there are more than `run_rows` rows.
    In memory are at most about twice `run_rows` rows, or the rows that share one value of the first column.
    """

    def __init__(self, columns: int, folder: Path, run_rows: int = RUN_ROWS) -> None:
        self._held = [np.empty((columns, 0), np.int64)]
        self._held_rows = 0
        self._folder = folder
        self._run_rows = run_rows
        self._runs: list[Path] = []

    def add(self, rows: np.ndarray) -> None:
        """Take rows: int64[columns, n]."""
        self._held.append(rows)
        self._held_rows += rows.shape[1]
        if self._held_rows > self._run_rows:
            path = self._folder / f"{len(self._runs)}.npy"
            np.save(path, self._flushed())
            self._runs.append(path)

    def portions(self) -> Iterator[np.ndarray]:
        """All rows in order, int64[columns, n] at a time; rows with one value of the first column stay together."""
        runs = [np.load(path, mmap_mode="r") for path in self._runs] + [self._flushed()]
        size = max(1, self._run_rows // len(runs))
        at = [0] * len(runs)
        while open_runs := [i for i, run in enumerate(runs) if at[i] < run.shape[1]]:
            last = min(int(runs[i][0, min(at[i] + size, runs[i].shape[1]) - 1]) for i in open_runs)
            parts = []
            for i in open_runs:
                stop = at[i] + int(np.searchsorted(runs[i][0, at[i] :], last, "right"))
                parts.append(runs[i][:, at[i] : stop])
                at[i] = stop
            yield parts[0] if len(parts) == 1 else _sorted(np.concatenate(parts, axis=1))

    def _flushed(self) -> np.ndarray:
        rows = _sorted(np.concatenate(self._held, axis=1))
        self._held, self._held_rows = [rows[:, :0]], 0
        return rows


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[:, np.lexsort(rows[::-1])]
