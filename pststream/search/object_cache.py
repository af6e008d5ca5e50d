"""Keep object segments in the node's cache, and group the data files of `objects` into segments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pststream.base import names
from pststream.search.object_segments import COLUMNS, LAYOUT, ObjectSegment, TooManyTerms, build_object_segment
from pststream.state.data_files import DataFile
from pststream.storage.array_cache import ArrayCache, Paths
from pststream.storage.parquet_files import count_values, open_parquet

OBJECT_FOLDERS = "segments-objects-*"
"""Folders of segments of objects in a node's cache, also those of other versions of the code."""

LARGE_ROWS = 2_000_000
"""A file with more rows is a segment of its own; smaller ones are built together, up to about this many rows."""

LARGE_BYTES = 512 * 1024 * 1024
"""The same for the bytes of data files: texts of all objects of a segment are in memory while it is built."""

SIMILAR_ROWS = 1.5
"""Ratio of rows up to which two groups of files count as similar in size."""

SETTLED_ROWS = int(LARGE_ROWS * SIMILAR_ROWS / (SIMILAR_ROWS + 1))
"""With so many rows a group is not built together with newer files: these would have to be similar and too many."""


@dataclass(frozen=True)
class ObjectFile:
    """A data file of `objects`: its address, its number of rows, its least key, its size."""

    address: str
    rows: int
    least_key: int
    bytes: int = 0


class ObjectCache(ArrayCache):
    """Segments of objects, built from data files; one instance for each process."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        super().__init__(folder, max_bytes, LAYOUT)

    def segment(self, paths: Paths) -> ObjectSegment:
        """Return the segment of some data files of objects."""
        return ObjectSegment(**self.arrays(paths, lambda: build_object_segment(_read(paths))._asdict()))

    def segments(self, paths: Paths) -> list[tuple[Paths, ObjectSegment]]:
        """Return the segments of some data files, with the files of each: one unless these have too many terms."""
        try:
            return [(paths, self.segment(paths))]
        except TooManyTerms:
            if len(paths) == 1:
                raise
        middle = len(paths) // 2
        return [*self.segments(paths[:middle]), *self.segments(paths[middle:])]

    def clear_objects(self) -> None:
        """Delete all segments of objects on this node, also those of other homes."""
        self._mapped.clear()
        for folder in self.folder.parent.glob(OBJECT_FOLDERS):
            for entry in folder.iterdir():
                entry.unlink(missing_ok=True)


def group_files(files: Iterable[ObjectFile]) -> list[Paths]:
    """Group data files into segments, in the order of their keys.

    A question looks at each segment, so small files are built together with newer files of similar or greater size. Of
    n files of one size the segments are the powers of two that sum to n: 8 + 4 + 1 for 13. A row is built again at
    most log5/3(n) times as n files are added; the groups of older files stay as they are.
    """
    return [tuple(file.address for file in group) for group in _groups(files)]


def group_request_files(files: Iterable[DataFile], addresses: Sequence[tuple[str, int]]) -> tuple[Paths, ...]:
    """Return data files of `requests`, with address and rows of each, in the groups whose arrays a cache keeps."""
    return tuple(
        group_files(
            ObjectFile(address, rows, file.low.get("request_key", -1), file.bytes)
            for file, (address, rows) in zip(files, addresses, strict=True)
        )
    )


def settled_groups(files: Iterable[ObjectFile]) -> list[tuple[ObjectFile, ...]]:
    """Return the groups of `group_files` that stay as they are when newer files are added."""
    groups = _groups(files)
    newer: list[ObjectFile] = []
    while groups and _rows(groups[-1]) < SETTLED_ROWS and _may_be_together(groups[-1], newer):
        newer = groups.pop()
    return [tuple(group) for group in groups]


def _groups(files: Iterable[ObjectFile]) -> list[list[ObjectFile]]:
    groups: list[list[ObjectFile]] = []
    for file in sorted(files, key=lambda file: (file.least_key, file.address)):
        groups.append([file])
        while (
            len(groups) > 1 and _may_be_together(*groups[-2:]) and _rows(groups[-2]) < SIMILAR_ROWS * _rows(groups[-1])
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _may_be_together(older: list[ObjectFile], newer: list[ObjectFile]) -> bool:
    return _rows(older) + _rows(newer) <= LARGE_ROWS and sum(file.bytes for file in (*older, *newer)) <= LARGE_BYTES


def _rows(group: list[ObjectFile]) -> int:
    return sum(file.rows for file in group)


def _read(paths: Paths) -> pa.Table:
    """Read the columns of a segment from data files; raises TooManyTerms for several with more than MAX_FILE_TERMS."""
    tables, terms = list[pa.Table](), 0
    for path in paths:
        with open_parquet(path) as file:
            terms += count_values(file.metadata, "terms")
            if len(paths) > 1 and terms > names.MAX_FILE_TERMS:
                raise TooManyTerms(f"{len(paths)} files have more than {names.MAX_FILE_TERMS:,} terms of objects")
            tables.append(file.read(list(COLUMNS)))
    return pa.concat_tables(tables)
