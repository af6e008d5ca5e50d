"""Bounded reads of a home's Delta tables: projections, filters, batches; nothing is read whole but ledgers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

_FAULTS = (DeltaError, OSError, pa.ArrowException, ValueError)


class Tables:
    """The tables of a home as a reader finds them; what is absent or broken has no rows.

    `problems` collects a sentence for each table that is there and cannot be read.
    """

    def __init__(self, home: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._root = home.rstrip("/").replace("s3a://", "s3://", 1) + "/tables/"
        self._options = dict(storage_options) if storage_options else None
        self._open: dict[str, ds.Dataset | None] = {}
        self.problems: list[str] = []

    def dataset(self, name: str) -> ds.Dataset | None:
        """The table as a dataset, or None."""
        if name not in self._open:
            self._open[name] = None
            try:
                table = DeltaTable(self._root + name, storage_options=self._options)
                self._open[name] = table.to_pyarrow_dataset()
            except TableNotFoundError:
                pass
            except _FAULTS as error:
                self._note(name, error)
        return self._open[name]

    def count(self, name: str, filter: ds.Expression | None = None) -> int:
        """Number of rows that pass `filter`."""
        dataset = self.dataset(name)
        try:
            return dataset.count_rows(filter=filter) if dataset is not None else 0
        except _FAULTS as error:
            self._note(name, error)
            return 0

    def batches(
        self, name: str, columns: Sequence[str], filter: ds.Expression | None = None, rows: int = 32_768
    ) -> Iterator[pa.RecordBatch]:
        """The rows that pass `filter`, some at a time, with those of `columns` that the table has."""
        dataset = self.dataset(name)
        if dataset is None:
            return
        known = [column for column in columns if column in dataset.schema.names]
        try:
            yield from dataset.to_batches(columns=known, filter=filter, batch_size=rows, batch_readahead=1)
        except _FAULTS as error:
            self._note(name, error)

    def rows(
        self, name: str, columns: Sequence[str], filter: ds.Expression | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """At most `limit` of the rows that pass `filter`, as dicts; a column that the table lacks is None."""
        found: list[dict[str, Any]] = []
        for batch in self.batches(name, columns, filter):
            found += batch.slice(0, None if limit is None else limit - len(found)).to_pylist()
            if limit is not None and len(found) >= limit:
                break
        return [{column: row.get(column) for column in columns} for row in found]

    def spread(self, name: str, columns: Sequence[str], pieces: int) -> Iterator[pa.RecordBatch]:
        """The first rows of at most `pieces` of the table's files, evenly chosen: a sample that never reads it all."""
        dataset = self.dataset(name)
        if dataset is None:
            return
        try:
            files = list(dataset.get_fragments())
            for number in sorted({round(i * (len(files) - 1) / max(pieces - 1, 1)) for i in range(pieces)}):
                if number < len(files):
                    scan = files[number].to_batches(schema=dataset.schema, columns=list(columns), batch_size=32_768)
                    yield from (batch for batch, _ in zip(scan, range(1)))
        except _FAULTS as error:
            self._note(name, error)

    def _note(self, name: str, error: Exception) -> None:
        self._open[name] = None
        self.problems.append(f"Table {name} cannot be read: {str(error).splitlines()[0][:200]}")
