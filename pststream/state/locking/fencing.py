"""Write a lease's fencing token into tables and every commit, so that a process that lost its lease cannot commit."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from pststream import names
from pststream.errors import RetryableError
from pststream.open_tables import open_table
from pststream.state.locking.lease import Lease
from pststream.state.tables import TABLES

DELIVERY_TABLES = (names.DELIVERIES, names.DEAD_LETTERS)
TRIES = 5


def with_fencing_tokens(
    table: DeltaTable, leases: Iterable[Lease], transactions: Sequence[Transaction]
) -> list[Transaction]:
    """Return the transactions of a commit to `table`, as it was just read: the given ones and the fencing tokens.

    Raises RetryableError if a lease was lost.
    """
    tokens = []
    for lease in leases:
        lease.check()
        if (table.transaction_version(lease.name) or 0) > lease.fencing_token:
            raise RetryableError(
                f"{lease.name}: another process has taken over this lock", "nothing was changed since; run this again"
            )
        tokens.append(Transaction(lease.name, lease.fencing_token))
    return [*transactions, *tokens]


def write_fencing_token(tables: Iterable[str], lease: Lease) -> None:
    """Write a lease's fencing token into the tables at these addresses, so that no earlier holder commits to them."""
    for address in tables:
        for tries_left in reversed(range(TRIES)):
            try:
                table = open_table(address)
                token = CommitProperties(app_transactions=[Transaction(lease.name, lease.fencing_token)])
                table.create_write_transaction([], "append", table.schema(), commit_properties=token)
                break
            except TableNotFoundError:  # a home of an older format lacks some
                break
            except CommitFailedError:  # the earlier holder has committed just now, for the last time
                if not tries_left:
                    raise RetryableError(f"{address}: others commit to it all the time", "run this again") from None


def greatest_fencing_token(tables: Iterable[str], name: str) -> int:
    """Return the greatest fencing token of this lease in the tables at these addresses; 0 if it was never held.

    A home that was copied has the tokens of the original.
    """
    greatest = 0
    for address in tables:
        with suppress(TableNotFoundError):
            greatest = max(greatest, open_table(address).transaction_version(name) or 0)
    return greatest


def fenced_tables(scope: str) -> Sequence[str]:
    """Return the names of the tables that the holder of a scope's lock commits to; scope "" is the whole home."""
    if not scope:
        return tuple(TABLES)
    if scope.startswith("deliver-"):
        return DELIVERY_TABLES
    return [name for name in TABLES if scope == f"compact-{name}"]
