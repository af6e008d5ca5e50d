"""Count the rows of a table that a change would remove, and rewrite the data files that have such rows.

Tasks first read only the columns that decide, of the files whose bounds allow such rows. Then they write the files with
such rows again, without them; a file of which no row is left is not written.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import csr
from pststream.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, list_data_files
from pststream.state.erasures import PairCounts
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices, split_into_tasks, whole_file
from pststream.state.tables import TABLES


class RowChange(Protocol):
    """A change of the rows of one table; travels pickled."""

    @property
    def table(self) -> str:
        """Name of the table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have rows to change."""

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Return the rows that stay, some of them changed, and the number of rows that went or changed."""


@dataclass(frozen=True)
class FoundRows:
    """The files with rows to change, and how many rows these are; pairs: of `matches`."""

    files: list[DataFile]
    emptied: frozenset[str]
    rows: int
    pairs: PairCounts


@dataclass(frozen=True)
class _Counted:
    """Counts of a task: by address of the file, rows to change and rows that stay; the pairs that batches lose."""

    changed: Counter[str]
    left: Counter[str]
    pairs: PairCounts


def find_rows(home: Home, settings: Settings, change: RowChange) -> FoundRows:
    """Count the rows that a change concerns, without changing anything."""
    files = [file for file in list_data_files(home, change.table) if change.may_change(file)]
    addresses = addresses_and_rows(home, change.table, files)
    tasks = split_into_tasks(addresses)
    counted = get_engine(settings).run_tasks(tasks, partial(_count, change)) if tasks else []
    changed = sum((one.changed for one in counted), Counter[str]())
    left = sum((one.left for one in counted), Counter[str]())
    affected = [file for file, (address, _) in zip(files, addresses) if changed[address]]
    emptied = frozenset(
        file.path for file, (address, _) in zip(files, addresses) if changed[address] and not left[address]
    )
    parts = [one.pairs for one in counted]
    pairs = PairCounts.sum(
        *(_joined([getattr(p, name) for p in parts]) for name in ("batch_ids", "pairs", "retractions"))
    )
    return FoundRows(affected, emptied, sum(changed.values()), pairs)


def rewrite_files(home: Home, settings: Settings, change: RowChange, affected: FoundRows) -> list[DataFile]:
    """Write the files with rows to change again, and return the new files, which are not yet committed."""
    tasks = [file for file in affected.files if file.path not in affected.emptied]
    written = (
        get_engine(settings).run_tasks(tasks, partial(_rewrite, change, home.table(change.table))) if tasks else []
    )
    return [file for file in written if file is not None]


def _count(change: RowChange, slices: tuple[Slice, ...]) -> _Counted:
    changed, left, parts = Counter[str](), Counter[str](), [PairCounts()]
    for one in slices:
        for rows in read_slices([one], list(change.columns)):
            stay, count = change.apply(rows)
            changed[one.path] += count
            left[one.path] += stay.num_rows
            if count and change.table == names.MATCHES:
                parts.append(_lost_pairs(rows, stay))
    columns = (_joined([getattr(p, name) for p in parts]) for name in ("batch_ids", "pairs", "retractions"))
    return _Counted(changed, left, PairCounts.sum(*columns))


def _lost_pairs(before: pa.RecordBatch, after: pa.RecordBatch) -> PairCounts:
    batch_ids, pairs, retractions = [], [], []
    for rows, sign in ((before, 1), (after, -1)):
        lengths = sign * np.diff(csr(rows.column("subscription_keys"))[0])
        retracted = rows.column("retracted").to_numpy(zero_copy_only=False).astype(bool)
        batch_ids.append(rows.column("batch_id").to_numpy())
        pairs.append(np.where(retracted, 0, lengths))
        retractions.append(np.where(retracted, lengths, 0))
    counts = PairCounts.sum(np.concatenate(batch_ids), np.concatenate(pairs), np.concatenate(retractions))
    lost = (counts.pairs != 0) | (counts.retractions != 0)
    return PairCounts(counts.batch_ids[lost], counts.pairs[lost], counts.retractions[lost])


def _rewrite(change: RowChange, root: str, file: DataFile) -> DataFile | None:
    writer = FileWriter(root, TABLES[change.table].schema, file.partition)
    for rows in read_slices([whole_file(f"{root}/{file.path}")], writer.schema.names):
        writer.write(change.apply(rows)[0])
    return writer.close()


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
