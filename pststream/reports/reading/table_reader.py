"""Reads of a home's tables for commands: projected, filtered, some rows at a time; a table is opened once.

Reports are strangers to `state`: they read what the tables hold, and know the ledgers' one rule (`ledgers.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as pds
from deltalake import DeltaTable

from pststream.delta_tables import open_dataset, open_table

BATCH_ROWS = 32_768
ANY_VALUE = 2**63 - 1


class AnyHome(Protocol):
    """What reports need of a home; `state.home.Home` has it."""

    path: str

    def table(self, name: str) -> str:
        """Path of a table."""


class Reader:
    """The tables of a home, each as it stood when it was first asked for.

    Who needs two tables to agree asks first for the one that is written last: the ledger of batches, then `matches`.
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
        """All rows that pass, in memory: for ledgers, and for filters that leave few."""
        return self.dataset(name).to_table(columns=list(columns), filter=filter)

    def rows(self, name: str, columns: Sequence[str], filter: pds.Expression | None = None) -> list[dict[str, Any]]:
        """As `read`, as dicts."""
        found: list[dict[str, Any]] = self.read(name, columns, filter).to_pylist()
        return found

    def batches(
        self, name: str, columns: Sequence[str], filter: pds.Expression | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows that pass, some at a time, in no order."""
        for batch in self.dataset(name).to_batches(columns=list(columns), filter=filter, batch_size=rows):
            if batch.num_rows:
                yield batch

    def files(
        self, name: str, order: str, filter: pds.Expression | None = None, greatest: bool = False
    ) -> list[tuple[int, pds.Fragment]]:
        """The data files that may hold rows that pass, by the least value of a whole-number column in each.

        With `greatest`, by the greatest value, descending. A file without statistics may hold any value: it is first.
        """
        actions = pa.table(self.table(name).get_add_actions(flatten=True))
        column = f"max.{order}" if greatest else f"min.{order}"
        values = actions.column(column).to_pylist() if column in actions.column_names else []
        known = dict(zip(actions.column("path").to_pylist(), values))
        unknown = ANY_VALUE if greatest else -ANY_VALUE
        found = [(known.get(file.path), file) for file in self.dataset(name).get_fragments(filter=filter)]
        told = [(unknown if value is None else int(value), file) for value, file in found]
        return sorted(told, key=lambda item: (-item[0] if greatest else item[0], item[1].path))

    def batches_of(
        self,
        name: str,
        file: pds.Fragment,
        columns: Sequence[str],
        filter: pds.Expression | None = None,
        rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one data file that pass, some at a time, as stored."""
        schema = self.dataset(name).schema
        found = file.to_batches(schema=schema, columns=list(columns), filter=filter, batch_size=rows, batch_readahead=2)
        yield from (batch for batch in found if batch.num_rows)
