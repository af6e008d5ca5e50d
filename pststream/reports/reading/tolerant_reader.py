"""Reads for a page that must come out whatever it finds: a table that is absent or broken has no rows."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as pds
from deltalake.exceptions import DeltaError, TableNotFoundError

from pststream.errors import PstError
from pststream.reports.reading.table_reader import BATCH_ROWS, Reader

T = TypeVar("T")

_FAULTS = (DeltaError, OSError, pa.ArrowException, PstError, ValueError, KeyError)


@dataclass
class HomeFolder:
    """A home by its path alone."""

    path: str

    def table(self, name: str) -> str:
        """Path of a table."""
        return f"{self.path.rstrip('/')}/tables/{name}"


class TolerantReader:
    """The tables of a home; `problems` collects a sentence for each that is there and cannot be read."""

    def __init__(self, home: str) -> None:
        self.home = HomeFolder(home)
        self.reader = Reader(self.home)
        self._broken: set[str] = set()
        self.problems: list[str] = []

    def dataset(self, name: str) -> pds.Dataset | None:
        """The table as a dataset, or None."""
        if name in self._broken:
            return None
        try:
            return self.reader.dataset(name)
        except TableNotFoundError:
            self._broken.add(name)
        except _FAULTS as error:
            self._note(name, error)
        return None

    def tolerate(self, name: str, read: Callable[[], T], otherwise: T) -> T:
        """What `read` gives of the table `name`; `otherwise` where that is absent or broken."""
        if self.dataset(name) is None:
            return otherwise
        try:
            return read()
        except TableNotFoundError:
            return otherwise
        except _FAULTS as error:
            self._note(name, error)
            return otherwise

    def count(self, name: str, filter: pds.Expression | None = None) -> int:
        """Number of rows that pass `filter`."""
        dataset = self.dataset(name)
        try:
            return dataset.count_rows(filter=filter) if dataset is not None else 0
        except _FAULTS as error:
            self._note(name, error)
            return 0

    def batches(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows that pass `filter`, some at a time."""
        if self.dataset(name) is None:
            return
        try:
            yield from self.reader.batches(name, columns, filter, rows)
        except _FAULTS as error:
            self._note(name, error)

    def rows(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """At most `limit` of the rows that pass `filter`, as dicts."""
        found: list[dict[str, Any]] = []
        for batch in self.batches(name, columns, filter):
            found += batch.slice(0, None if limit is None else limit - len(found)).to_pylist()
            if limit is not None and len(found) >= limit:
                break
        return found

    def spread(self, name: str, columns: Sequence[str], pieces: int) -> Iterator[pa.RecordBatch]:
        """The first rows of at most `pieces` of the table's files, evenly chosen: a sample of a table of any size."""
        dataset = self.dataset(name)
        if dataset is None:
            return
        try:
            files = list(dataset.get_fragments())
            step = max(len(files) / pieces, 1.0)
            for number in range(min(pieces, len(files))):
                found = self.reader.batches_of(name, files[int(number * step)], columns)
                yield from itertools.islice(found, 1)
        except _FAULTS as error:
            self._note(name, error)

    def _note(self, name: str, error: Exception) -> None:
        self._broken.add(name)
        first = (str(error).splitlines() or [type(error).__name__])[0]
        self.problems.append(f"Table {name} cannot be read: {first[:200]}")
