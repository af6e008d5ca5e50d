"""What keeps a holder of a lease that has lost it from committing (lease.py): numbers in tables and in commits."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from pststream import names
from pststream.delta_tables import open_table
from pststream.errors import RetryableError
from pststream.state.locking.lease import Lease
from pststream.state.tables import TABLES

DELIVERED = (names.DELIVERIES, names.DEAD_LETTERS)
TRIES = 5


def properties(table: DeltaTable, leases: Iterable[Lease], transactions: Sequence[Transaction]) -> CommitProperties:
    """Properties of a commit on `table`, as it was read just now: its own transactions, and the numbers of leases.

    Raises RetryableError if a lease was lost.
    """
    numbers = []
    for lease in leases:
        lease.check()
        if (table.transaction_version(lease.name) or 0) > lease.number:
            raise RetryableError(
                f"{lease.name}: another process has taken this lock over", "nothing was changed since; run this again"
            )
        numbers.append(Transaction(lease.name, lease.number))
    return CommitProperties(app_transactions=[*transactions, *numbers])


def fence(tables: Iterable[str], lease: Lease) -> None:
    """Write a lease's number into the tables at these addresses, so that no holder before it commits to them."""
    for address in tables:
        for left in reversed(range(TRIES)):
            try:
                table = open_table(address)
                table.create_write_transaction([], "append", table.schema(), commit_properties=_number(lease))
                break
            except TableNotFoundError:  # a home of an older format has not all of them
                break
            except CommitFailedError:  # the holder before has committed just now, for the last time
                if not left:
                    raise RetryableError(
                        f"{address}: is committed to by others all the time", "run this again"
                    ) from None


def greatest_number(tables: Iterable[str], name: str) -> int:
    """The greatest number of this lease that the tables at these addresses know: 0 where it never was held. A home that
    was copied here knows those of where it was.
    """
    greatest = 0
    for address in tables:
        with suppress(TableNotFoundError):
            greatest = max(greatest, open_table(address).transaction_version(name) or 0)
    return greatest


def _number(lease: Lease) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(lease.name, lease.number)])


def guarded(part: str) -> Sequence[str]:
    """Names of the tables that the holder of a part of a home commits to; the part "" is the home."""
    if not part:
        return tuple(TABLES)
    if part.startswith("deliver-"):
        return DELIVERED
    return [name for name in TABLES if part == f"join-{name}"]
