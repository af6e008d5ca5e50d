"""Commit the removal of rows and record it in `erasures`, and keep the ids of an unfinished erasure in a file.

Each removal is two commits: a row of `erasures` with the counts, then the removal with the transaction id that this row
names. A row whose transaction its table does not have belongs to a process that was killed, and does not count.
"""

import datetime as dt
import getpass
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import look_up
from pststream.base.arrow_columns import sum_column
from pststream.base.utc_times import utc_now
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, commit_files
from pststream.state.delta_log import APPEND_ONLY, write_checkpoint
from pststream.state.home import Home
from pststream.state.log_entries import commit_entry, metadata_action
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import greatest_value, last_transaction, read_table, table_version
from pststream.tables.open_tables import latest_table

APPLICATION = names.REMOVALS

ERASE, KEEP = "erase", "keep"

PENDING = "erasure.json"
"""File of a home with the ids of an erasure that is not finished."""

LOG_DAYS = 7
"""Days that the log of a table is kept at most; its entries have bounds of ids (`home.log_retention`)."""


@dataclass(frozen=True)
class PairCounts:
    """Pairs and retractions that batches lost: int64[n] each; batch_ids ascend."""

    batch_ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    pairs: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    retractions: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @staticmethod
    def sum(batch_ids: np.ndarray, pairs: np.ndarray, retractions: np.ndarray) -> "PairCounts":
        """Add up counts, int64[n] each, by batch."""
        numbers, index = np.unique(batch_ids, return_inverse=True)
        sums = [np.zeros(len(numbers), np.int64) for _ in range(2)]
        for total, counts in zip(sums, (pairs, retractions)):
            np.add.at(total, index, counts)
        return PairCounts(numbers, *sums)

    def of_batches(self, batch_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs and the retractions that each of these batches lost: int64[n] each."""
        pairs, retractions = (
            look_up(batch_ids, self.batch_ids, counts, 0) for counts in (self.pairs, self.retractions)
        )
        return pairs, retractions


@dataclass(frozen=True)
class Removal:
    """What one commit removes from a table, besides the files.

    rows             rows removed or changed
    matched_objects  of `objects`: those that batches had matched
    pairs            of `matches`
    """

    rows: int
    matched_objects: int = 0
    pairs: PairCounts = field(default_factory=PairCounts)


@dataclass(frozen=True)
class PendingErasure:
    """An erasure that has begun.

    ingests_to        the last ingest before it: rows that are ingested later stay
    object_ids        ids to erase
    subscription_ids  owners and ids to erase
    texts             the first characters of the texts of the erased rows, by which rejects and pages may show them
    terms, words      term ids and words that no other row has
    """

    erasure_id: int
    ingests_to: int
    object_ids: tuple[str, ...]
    subscription_ids: tuple[tuple[str, str], ...]
    texts: tuple[str, ...] = ()
    terms: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    vacuum_now: bool = False


def save_pending(home: Home, erasure: PendingErasure) -> None:
    """Write the file of an unfinished erasure."""
    home.files.write(PENDING, json.dumps(asdict(erasure)).encode())


def load_pending(home: Home) -> PendingErasure | None:
    """Return the unfinished erasure; None if there is none."""
    if not home.files.exists(PENDING):
        return None
    content = json.loads(home.files.read(PENDING))
    fields: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in content.items()}
    return PendingErasure(**fields | {"subscription_ids": tuple(map(tuple, fields["subscription_ids"]))})


def forget_pending(home: Home) -> None:
    """Delete the file of an unfinished erasure."""
    home.files.delete([PENDING])


def next_erasure_id(home: Home) -> int:
    """Return the number of the next erasure, from 1."""
    return greatest_value(home.table(names.ERASURES), "erasure_id") + 1


def count_removals(home: Home) -> int:
    """Return how many commits have removed rows of objects or requests."""
    return sum(last_transaction(home.table(name), APPLICATION) + 1 for name in (names.OBJECTS, names.REQUESTS))


def commit_removal(
    home: Home,
    name: str,
    added: Sequence[DataFile],
    removed: Sequence[DataFile],
    removal: Removal,
    *,
    erasure_id: int,
    cause: str,
    retention_days: int,
) -> None:
    """Replace files of a table by files without the removed rows, and record it."""
    transaction, now = last_transaction(home.table(name), APPLICATION) + 1, utc_now()
    row = {
        "erasure_id": erasure_id, "cause": cause, "table_name": name, "transaction_id": transaction,
        "rows_removed": removal.rows, "matched_objects": removal.matched_objects,
        "batch_ids": removal.pairs.batch_ids, "pairs": removal.pairs.pairs, "retractions": removal.pairs.retractions,
        "requested_by": login_name(), "erased_at": now,
        "files_until": now + dt.timedelta(days=max(retention_days, LOG_DAYS)),
    }  # fmt: skip
    ledger_tables.append(home, names.ERASURES, [row])
    crash_point(f"{cause}.recorded")
    deleted = sum(file.rows for file in removed) - sum(file.rows for file in added)
    edited = removal.rows - deleted
    commit_files(home, name, added, removed, application=APPLICATION, transaction=transaction, edited=edited)
    crash_point(f"{cause}.removed")


def restore_tables(home: Home) -> None:
    """Make the tables that removals have changed append-only again."""
    changed = dict.fromkeys((*names.ERASABLE, *names.KEEPABLE))
    for table in (TABLES[name] for name in changed if TABLES[name].append_only):
        with latest_table(home.table(table.name)) as stored:
            properties = stored.metadata().configuration
            if stored.transaction_version(APPLICATION) is not None and properties.get(APPEND_ONLY) != "true":
                action = metadata_action(stored, properties | {APPEND_ONLY: "true"})
                commit_entry(home, table.name, stored, "SET TBLPROPERTIES", [action])
                crash_point("erase.restored")


def write_checkpoints(home: Home) -> None:
    """Write a checkpoint of each table: backups start at it, and it has no bounds of removed files."""
    for name in names.ERASABLE:
        write_checkpoint(home.table(name))


def drop_older_versions(home: Home, name: str) -> int:
    """Delete the data files that only older versions of a table list, and the log before a new checkpoint.

    Returns the number of deleted data files. Nobody may read an older version or write to the table now.
    """
    version = table_version(home.table(name))
    write_checkpoint(home.table(name))
    removed = ledger_tables.vacuum(home, name, 0)
    log = home.files.names(f"tables/{name}/{names.DELTA_LOG}")
    numbered = ((file, file.rpartition("/")[2].split(".")[0]) for file in log)
    home.files.delete(file for file, number in numbered if number.isdigit() and int(number) < version)
    return removed


def login_name() -> str:
    """Return the login name of the user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        return "unknown"


def removed_rows(home: Home) -> pa.Table:
    """Return the rows of `erasures` that count, without those of killed processes."""
    rows = read_table(home.table(names.ERASURES)).sort_by("erased_at")
    last: dict[tuple[str, int], int] = {}
    for index, key in enumerate(zip(rows.column("table_name").to_pylist(), rows.column("transaction_id").to_pylist())):
        last[key] = index
    committed = {name: last_transaction(home.table(name), APPLICATION) for name in {name for name, _ in last}}
    return rows.take(pa.array(sorted(p for (name, n), p in last.items() if n <= committed[name]), pa.int64()))


def count_removed(rows: pa.Table, table: str, column: str = "rows_removed") -> int:
    """Return the sum of a column over the removals (`removed_rows`) of a table."""
    return sum_column(rows.filter(pc.equal(rows.column("table_name"), table)), column)


def count_removed_pairs(rows: pa.Table) -> PairCounts:
    """Return the pairs that the removals (`removed_rows`) took from each batch."""
    flat = [pc.list_flatten(rows.column(name)).to_numpy() for name in ("batch_ids", "pairs", "retractions")]
    return PairCounts.sum(*flat)
