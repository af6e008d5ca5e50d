"""Cache the arrays of the index on each node: segments, deletions, id indexes; the tasks of the node map them."""

import os
import threading
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from pststream.array_cache.array_cache import ArrayCache, Paths
from pststream.matching.deletions import COLUMNS as DELETION_COLUMNS
from pststream.matching.deletions import build_deletions
from pststream.matching.segments import COLUMNS, Segment, build_segment
from pststream.storage.parquet_files import open_parquet, without_views

LAYOUT = 7
"""Layout version in the name of the cache folder, so that code with other arrays reads none of the entries."""


class SegmentCache(ArrayCache):
    """Arrays of the index, built from data files; one instance for each process."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        super().__init__(folder, max_bytes, str(LAYOUT))

    def segments(self, wanted: Iterable[Paths]) -> dict[Paths, Segment]:
        """Return several segments.

        Each thread loads them in a different order, so that threads and processes that start together on new files
        build different segments first.
        """
        thread = os.getpid(), threading.get_ident()
        return {paths: self.segment(paths) for paths in sorted(wanted, key=lambda paths: hash((thread, paths)))}

    def segment(self, paths: Paths) -> Segment:
        """Return the segment of some data files of pieces."""
        return Segment(**self.arrays(paths, lambda: build_segment(_read(paths, COLUMNS))._asdict()))

    def deletions(self, path: str) -> dict[str, np.ndarray]:
        """Return the keys and ends of a data file of deletions (matching/deletions.py)."""
        return self.arrays((path,), lambda: build_deletions(_read((path,), DELETION_COLUMNS)))


def _read(paths: Paths, columns: tuple[str, ...]) -> pa.Table:
    """Read columns of data files."""

    def read(path: str) -> pa.Table:
        with open_parquet(path) as file:
            return without_views(file.read(columns)).select(columns)

    return pa.concat_tables(map(read, paths))
