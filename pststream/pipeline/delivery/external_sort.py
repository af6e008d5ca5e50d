"""Sort integer rows (the pairs of a batch) in bounded memory: write sorted runs to disk, and merge them in blocks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

RUN_ROWS = 1_000_000


class SortedRows:
    """Accepts rows as int64[columns, n], yields them sorted by the first column, then the second, and so on.

    folder: an empty folder for runs; nothing is written unless there are more than `run_rows` rows.
    At most about twice `run_rows` rows are in memory, or the rows that share one value of the first column.
    """

    def __init__(self, columns: int, folder: Path, run_rows: int = RUN_ROWS) -> None:
        self._buffered = [np.empty((columns, 0), np.int64)]
        self._buffered_rows = 0
        self._folder = folder
        self._run_rows = run_rows
        self._runs: list[Path] = []

    def add(self, rows: np.ndarray) -> None:
        """Add rows: int64[columns, n]."""
        self._buffered.append(rows)
        self._buffered_rows += rows.shape[1]
        if self._buffered_rows > self._run_rows:
            path = self._folder / f"{len(self._runs)}.npy"
            np.save(path, self._take_buffered())
            self._runs.append(path)

    def sorted_rows(self) -> Iterator[np.ndarray]:
        """Yield all rows in order, int64[columns, n] at a time; rows of one value of the first column stay together."""
        runs = [np.load(path, mmap_mode="r") for path in self._runs] + [self._take_buffered()]
        size = max(1, self._run_rows // len(runs))
        starts = [0] * len(runs)
        while unread := [i for i, run in enumerate(runs) if starts[i] < run.shape[1]]:
            # Each run offers its next `size` rows. `last` is the least of their last values: no run has a row up to
            # `last` beyond the rows that are taken here.
            last = min(int(runs[i][0, min(starts[i] + size, runs[i].shape[1]) - 1]) for i in unread)
            blocks = []
            for i in unread:
                stop = starts[i] + int(np.searchsorted(runs[i][0, starts[i] :], last, "right"))
                blocks.append(runs[i][:, starts[i] : stop])
                starts[i] = stop
            yield blocks[0] if len(blocks) == 1 else _sorted(np.concatenate(blocks, axis=1))

    def _take_buffered(self) -> np.ndarray:
        rows = _sorted(np.concatenate(self._buffered, axis=1))
        self._buffered, self._buffered_rows = [rows[:, :0]], 0
        return rows


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[:, np.lexsort(rows[::-1])]
