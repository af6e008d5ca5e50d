"""Write the fencing token of a lock into tables and commits, so that a process that lost its lock cannot commit."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from pststream import names
from pststream.errors import RetryableError
from pststream.open_tables import latest_table, open_table
from pststream.state.first_entries import ENGINE
from pststream.state.tables import TABLES
from pststream.storage.registry import files_at
from pststream.utc_times import to_micros, utc_now

DELIVERY_TABLES = (names.DELIVERIES, names.DEAD_LETTERS)
QUESTION_TABLES = (names.QUESTION_FILES, names.QUESTION_ANSWERS, names.QUESTIONS, names.REJECTS)
TRIES = 5


class HeldLock(Protocol):
    """A lock that this process holds: a lease or a file lock.

    is_checked_in_tables   whether a later holder is seen by its fencing token in the table; otherwise `check` reads
                           the file, which costs a request in a bucket, and a hundredth of the former in a folder
    """

    name: str
    fencing_token: int
    is_checked_in_tables: bool

    @property
    def lost(self) -> bool:
        """Whether another process has taken it over."""

    def check(self) -> None:
        """Raise RetryableError if it was lost."""


def with_fencing_tokens(
    table: DeltaTable, locks: Iterable[HeldLock], transactions: Sequence[Transaction]
) -> list[Transaction]:
    """Return the transactions of a commit to `table`, as it was just read: the given ones and the fencing tokens.

    Raises RetryableError if a lock was lost.
    """
    tokens = []
    for lock in locks:
        lock.check()
        if lock.is_checked_in_tables and (table.transaction_version(lock.name) or 0) > lock.fencing_token:
            raise RetryableError(
                f"{lock.name}: another process has taken over this lock", "nothing was changed since; run this again"
            )
        tokens.append(Transaction(lock.name, lock.fencing_token))
    return [*transactions, *tokens]


def write_fencing_token(tables: Iterable[str], lock: HeldLock) -> None:
    """Write a lock's fencing token into the tables at these addresses, so that no earlier holder commits to them."""
    transaction = {"txn": {"appId": lock.name, "version": lock.fencing_token}}
    for address in tables:
        for _ in range(TRIES):
            version = open_table(address).version() + 1
            now = to_micros(utc_now()) // 1000
            info = {"timestamp": now, "operation": "FENCE", "operationParameters": {}, "engineInfo": ENGINE}
            content = "".join(json.dumps(line) + "\n" for line in ({"commitInfo": info}, transaction))
            if files_at(address).create(f"_delta_log/{version:020}.json", content.encode()):
                break  # otherwise the earlier holder has committed just now, for the last time
        else:
            raise RetryableError(f"{address}: others commit to it all the time", "run this again")


def greatest_fencing_token(tables: Iterable[str], name: str) -> int:
    """Return the greatest fencing token of this lock in the tables at these addresses; 0 if it was never held.

    A home that was copied has the tokens of the original.
    """
    greatest = 0
    for address in tables:
        with suppress(TableNotFoundError), latest_table(address) as table:
            greatest = max(greatest, table.transaction_version(name) or 0)
    return greatest


def fenced_tables(scope: str) -> Sequence[str]:
    """Return the names of the tables that the holder of a scope's lock commits to; scope "" is the whole home."""
    if not scope:
        return tuple(TABLES)
    if scope.startswith("deliver-"):
        return DELIVERY_TABLES
    if scope == names.QUESTIONS:
        return QUESTION_TABLES
    return [name for name in TABLES if scope == f"compact-{name}"]
