"""Read which objects are withdrawn at a position of the object log.

A withdrawal takes one position of the log: a row of `files` with its number. The table `withdrawals` names its objects.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.sorted_keys import distinct_values, is_among
from pststream.tables.delta_tables import describe_snapshot, greatest_value, read_table
from pststream.tables.ledger_rows import log_key


class TableAddresses(Protocol):
    """The part of a home that this module uses; `state.home.Home` has it."""

    def table(self, name: str) -> str:
        """Return the address of a table."""


@dataclass(frozen=True)
class WithdrawnObjects:
    """The objects of some withdrawals; travels pickled. A process that asks keeps 8 bytes for each object.

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
        """The keys of the objects, ascending: int64[n]."""
        return _read_keys(self)

    def contain(self, object_keys: np.ndarray) -> np.ndarray:
        """Return which of these objects (int64[n]) are withdrawn: bool[n]."""
        return is_among(object_keys, self.keys if self else np.empty(0, np.int64))


NONE = WithdrawnObjects()


def withdrawn_objects(home: TableAddresses, after: int = -1, up_to: int = names.MAX_INT64) -> WithdrawnObjects:
    """Return the objects of the withdrawals at the positions after < key <= up_to of the object log."""
    address = home.table(names.WITHDRAWALS)
    if not greatest_value(address, "withdrawal_id"):
        return NONE
    rows = read_table(home.table(names.FILES), ["file_seq", "withdrawal_id"], pds.field("withdrawal_id").is_valid())
    numbers = {row["withdrawal_id"] for row in rows.to_pylist() if after < log_key(row["file_seq"], 1) <= up_to}
    return WithdrawnObjects(address, describe_snapshot(address), tuple(sorted(numbers)))


@lru_cache(maxsize=4)
def _read_keys(withdrawn: WithdrawnObjects) -> np.ndarray:
    wanted = pds.field("withdrawal_id").isin(list(withdrawn.numbers))
    rows = read_table(withdrawn.address, ["object_key"], wanted)
    return distinct_values(rows.column(0).to_numpy())
