"""Read a home's Delta tables, each at the version of its first read: whole, by data file, or some rows at a time.

Reports do not import `state`: they read the tables, and share the rules of the ledgers with it (`pststream/ledgers`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pds
from deltalake import DeltaTable

from pststream import names
from pststream.delta_tables import open_dataset
from pststream.open_tables import open_table

BATCH_ROWS = 32_768


class AnyHome(Protocol):
    """The part of a home that reports use; `state.home.Home` and HomeFolder have it."""

    path: str

    def table(self, name: str) -> str:
        """Path of a table."""


class TableReader:
    """Reads the tables of a home, each at the version of its first read.

    To read two tables that agree, read the table that is written last first: the ledger of batches, then `matches`.
    """

    def __init__(self, home: AnyHome) -> None:
        self.home = home
        self._tables: dict[str, DeltaTable] = {}
        self._datasets: dict[str, pds.Dataset] = {}

    def table(self, name: str) -> DeltaTable:
        """The Delta table."""
        if name not in self._tables:
            self._tables[name] = open_table(self.home.table(name))
        return self._tables[name]

    def dataset(self, name: str) -> pds.Dataset:
        """The table as a dataset, whose filters skip files by their statistics."""
        if name not in self._datasets:
            self._datasets[name] = open_dataset(self.table(name))
        return self._datasets[name]

    def read(self, name: str, columns: Sequence[str], filter: pds.Expression | None = None) -> pa.Table:
        """Read all rows that pass the filter into memory: for ledgers, and for filters that few rows pass."""
        return self.dataset(name).to_table(columns=list(columns), filter=filter)

    def rows(self, name: str, columns: Sequence[str], filter: pds.Expression | None = None) -> list[dict[str, Any]]:
        """Read all rows that pass the filter as dicts."""
        rows: list[dict[str, Any]] = self.read(name, columns, filter).to_pylist()
        return rows

    def batches(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that pass the filter, some at a time, in no order."""
        for batch in self.dataset(name).to_batches(columns=list(columns), filter=filter, batch_size=rows):
            if batch.num_rows:
                yield batch

    def files(
        self, name: str, order: str, filter: pds.Expression | None = None, greatest: bool = False
    ) -> list[tuple[int, pds.Fragment]]:
        """List the data files that may contain rows that pass, ordered by the least value of an integer column.

        With `greatest`, ordered by the greatest value, descending. A file without statistics may contain any value and
        comes first.
        """
        actions = pa.table(self.table(name).get_add_actions(flatten=True))
        column = f"max.{order}" if greatest else f"min.{order}"
        values = actions.column(column).to_pylist() if column in actions.column_names else []
        known = dict(zip(actions.column("path").to_pylist(), values))
        unknown = names.MAX_INT64 if greatest else names.MIN_INT64
        files = [(known.get(file.path), file) for file in self.dataset(name).get_fragments(filter=filter)]
        ordered = [(unknown if value is None else int(value), file) for value, file in files]
        return sorted(ordered, key=lambda item: (-item[0] if greatest else item[0], item[1].path))

    def batches_of(
        self,
        name: str,
        file: pds.Fragment,
        columns: Sequence[str],
        filter: pds.Expression | None = None,
        rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one data file that pass the filter, some at a time, in their order in the file."""
        schema = self.dataset(name).schema
        batches = file.to_batches(
            schema=schema, columns=list(columns), filter=filter, batch_size=rows, batch_readahead=2
        )
        yield from (batch for batch in batches if batch.num_rows)
