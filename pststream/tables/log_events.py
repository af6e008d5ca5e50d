"""Read the rows of `files` that are no new files: withdrawals, retries of rejects, and changes of the term statistics.

A withdrawal takes one position of the object log, a change of the statistics one of the request log: a row of `files`
with its number. The table `withdrawals` names the objects, and `term_statistics` has the counts. A row that a batch has
set aside is withdrawn too, and since no batch has processed it, it counts at no position. The withdrawal of a request
takes a position of the request log, where `requests` has a deletion at the start of its validity.
"""

import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.tables.delta_tables import AnyHome, describe_snapshot, greatest_value, read_table
from pststream.tables.ledgers import MAX_ROW, log_key


@dataclass(frozen=True)
class WithdrawnRows:
    """The objects, or the requests, of some withdrawals; travels pickled. A process that asks keeps 8 bytes for each.

    address   of the table `withdrawals`
    snapshot  of the table (delta_tables.describe_snapshot): another home may have been at the address before
    numbers   of the withdrawals
    """

    address: str = ""
    snapshot: str = ""
    numbers: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.numbers)

    @property
    def keys(self) -> np.ndarray:
        """Their keys, ascending: int64[n]."""
        return _read_keys(self)

    def contain(self, keys: np.ndarray) -> np.ndarray:
        """Return which of these objects or requests (int64[n]) are withdrawn: bool[n]."""
        return is_among(keys, self.keys if self else np.empty(0, np.int64))


NONE = WithdrawnRows()

SET_ASIDE = "set_aside"
"""Key in the options of a withdrawal of a row that its batch has set aside: the key of the row."""


def is_set_aside() -> pds.Expression:
    """Return a filter of the rows of `files` that withdraw a row which was set aside."""
    is_one: pds.Expression = pc.match_substring(pds.field("options"), f'"{SET_ASIDE}"')
    return pds.field("withdrawal_id").is_valid() & is_one


def withdrawn_objects(home: AnyHome, after: int = -1, up_to: int = names.MAX_INT64) -> WithdrawnRows:
    """Return the objects of the withdrawals at the positions after < key <= up_to of the object log.

    Without `after`, all objects that were set aside are among them.
    """
    return _withdrawn(home, names.OBJECTS, after, up_to)


def withdrawn_requests(home: AnyHome) -> WithdrawnRows:
    """Return the requests that were set aside: insertions that count at no position."""
    return _withdrawn(home, names.REQUESTS, -1, names.MAX_INT64)


def _withdrawn(home: AnyHome, kind: str, after: int, up_to: int) -> WithdrawnRows:
    address = home.table(names.WITHDRAWALS)
    if not greatest_value(address, "withdrawal_id"):
        return NONE
    columns = ["file_seq", "withdrawal_id", "options"]
    of_kind = pds.field("withdrawal_id").is_valid() & (pds.field("kind") == kind)
    numbers = {
        row["withdrawal_id"]
        for row in read_table(home.table(names.FILES), columns, of_kind).to_pylist()
        if after < log_key(row["file_seq"], 1) <= up_to or (after < 0 and SET_ASIDE in json.loads(row["options"]))
    }
    return WithdrawnRows(address, describe_snapshot(address), tuple(sorted(numbers))) if numbers else NONE


@lru_cache(maxsize=4)
def _read_keys(withdrawn: WithdrawnRows) -> np.ndarray:
    wanted = pds.field("withdrawal_id").isin(list(withdrawn.numbers))
    rows = read_table(withdrawn.address, ["log_key"], wanted)
    return distinct_values(rows.column(0).to_numpy())


# Retries of rejects

OPTION = "retry"
"""Key in the options of a file that is a retry: {"reason", "ingests_to"}."""

COLUMNS = ("ingest_id", "options")


@dataclass(frozen=True)
class Retry:
    """An ingest of the rejects with one reason and stored fields, of all ingests since the retry before."""

    ingest_id: int
    reason: str
    ingests_to: int


def is_retry() -> pds.Expression:
    """Return a filter of the rows of `files` that are retries, and perhaps of some others."""
    filter: pds.Expression = pc.match_substring(pds.field("options"), f'"{OPTION}"')
    return filter


def retries_among(files: pa.Table) -> list[Retry]:
    """Return the retries among rows of `files` with the columns COLUMNS, each once, in the order of the log."""
    retries = set()
    for row in files.to_pylist():
        retry = json.loads(row["options"]).get(OPTION)
        if retry:
            retries.add(Retry(row["ingest_id"], retry["reason"], retry["ingests_to"]))
    return sorted(retries, key=lambda retry: retry.ingest_id)


# Versions of the term statistics


@dataclass(frozen=True)
class StatisticsVersion:
    """A version of the term statistics: the objects that it counts, and how many terms these have.

    Version 0 counts nothing, and every word weighs 1.
    """

    version: int = 0
    objects: int = 0
    terms: int = 0


NO_STATISTICS = StatisticsVersion()


def statistics_in_force(home: AnyHome, up_to: int = names.MAX_INT64) -> StatisticsVersion:
    """Return the version that is in force at the position `up_to` of the request log."""
    if not greatest_value(home.table(names.TERM_STATISTICS), "statistics_version"):
        return NO_STATISTICS
    columns = ["file_seq", "statistics_version", "options"]
    rows = read_table(home.table(names.FILES), columns, pds.field("statistics_version").is_valid()).to_pylist()
    events = [row for row in rows if log_key(row["file_seq"], MAX_ROW) <= up_to]
    last = max(events, key=lambda row: int(row["file_seq"]), default=None)
    if last is None:
        return NO_STATISTICS
    counted = json.loads(last["options"])
    return StatisticsVersion(last["statistics_version"], counted["objects"], counted["terms"])
