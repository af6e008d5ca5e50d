"""Read which version of the term statistics is in force at a position of the request log.

A change of version takes one position of the log: a row of `files` with its number, whose options have the number of
objects that it counts. The table `term_statistics` has the counts.
"""

import json
from dataclasses import dataclass
from typing import Protocol

import pyarrow.dataset as pds

from pststream.base import names
from pststream.tables.delta_tables import greatest_value, read_table
from pststream.tables.ledger_rows import MAX_ROW, log_key


class TableAddresses(Protocol):
    """The part of a home that this module uses; `state.home.Home` has it."""

    def table(self, name: str) -> str:
        """Return the address of a table."""


@dataclass(frozen=True)
class StatisticsVersion:
    """A version of the term statistics: the objects that it counts, and how many terms these have.

    Version 0 counts nothing, and every word weighs 1.
    """

    version: int = 0
    objects: int = 0
    terms: int = 0


NO_STATISTICS = StatisticsVersion()


def statistics_in_force(home: TableAddresses, up_to: int = names.MAX_INT64) -> StatisticsVersion:
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
