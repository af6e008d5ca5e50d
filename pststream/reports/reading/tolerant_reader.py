"""Read tables for the pages: a missing or unreadable table counts as empty, and the page reports an unreadable one."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as pds
from deltalake.exceptions import DeltaError, TableNotFoundError

from pststream.errors import PstError
from pststream.mask_urls import mask_urls
from pststream.reports.reading.table_reader import BATCH_ROWS, TableReader

T = TypeVar("T")

_FAULTS = (DeltaError, OSError, pa.ArrowException, PstError, ValueError, KeyError)


@dataclass
class HomeFolder:
    """A home given by its path alone, which may not exist."""

    path: str

    def table(self, name: str) -> str:
        """Path of a table."""
        return f"{self.path.rstrip('/')}/tables/{name}"


class TolerantReader:
    """Reads the tables of a home; `problems` has a sentence for each table that exists and cannot be read."""

    def __init__(self, home: str) -> None:
        self.home = HomeFolder(home)
        self.reader = TableReader(self.home)
        self._broken: set[str] = set()
        self.problems: list[str] = []

    def dataset(self, name: str) -> pds.Dataset | None:
        """The table as a dataset; None if it is missing or cannot be read."""
        if name in self._broken:
            return None
        try:
            return self.reader.dataset(name)
        except TableNotFoundError:
            self._broken.add(name)
        except _FAULTS as error:
            self._add_problem(name, error)
        return None

    def tolerate(self, name: str, read: Callable[[], T], otherwise: T) -> T:
        """The result of `read`, which reads the table `name`; `otherwise` if that is missing or cannot be read."""
        if self.dataset(name) is None:
            return otherwise
        try:
            return read()
        except TableNotFoundError:
            return otherwise
        except _FAULTS as error:
            self._add_problem(name, error)
            return otherwise

    def count(self, name: str, filter: pds.Expression | None = None) -> int:
        """Count the rows that pass `filter`."""
        dataset = self.dataset(name)
        try:
            return dataset.count_rows(filter=filter) if dataset is not None else 0
        except _FAULTS as error:
            self._add_problem(name, error)
            return 0

    def batches(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that pass `filter`, some at a time."""
        if self.dataset(name) is None:
            return
        try:
            yield from self.reader.batches(name, columns, filter, rows)
        except _FAULTS as error:
            self._add_problem(name, error)

    def rows(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Read at most `limit` of the rows that pass `filter`, as dicts."""
        rows: list[dict[str, Any]] = []
        for batch in self.batches(name, columns, filter):
            rows += batch.slice(0, None if limit is None else limit - len(rows)).to_pylist()
            if limit is not None and len(rows) >= limit:
                break
        return rows

    def sample_files(self, name: str, columns: Sequence[str], count: int) -> Iterator[pa.RecordBatch]:
        """Yield the first rows of at most `count` data files, evenly chosen: a sample of a table of any size."""
        dataset = self.dataset(name)
        if dataset is None:
            return
        try:
            files = list(dataset.get_fragments())
            step = max(len(files) / count, 1.0)
            for number in range(min(count, len(files))):
                batches = self.reader.batches_of(name, files[int(number * step)], columns)
                yield from itertools.islice(batches, 1)
        except _FAULTS as error:
            self._add_problem(name, error)

    def _add_problem(self, name: str, error: Exception) -> None:
        self._broken.add(name)
        first = (mask_urls(str(error)).splitlines() or [type(error).__name__])[0]
        self.problems.append(f"Table {name} cannot be read: {first[:200]}")
