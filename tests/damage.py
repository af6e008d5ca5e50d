"""Delete or change rows of a home's tables as no command does, for tests of what then happens."""

from deltalake import DeltaTable

from pststream.open_tables import open_table
from pststream.state import ledger_tables
from pststream.state.home import APPEND_ONLY, Home


def allow_changes(address: str) -> DeltaTable:
    """Open a table that accepts deletions and updates from now on."""
    table = open_table(address)
    if table.metadata().configuration.get(APPEND_ONLY) == "true":
        table.alter.set_table_properties({APPEND_ONLY: "false"})
    return open_table(address)


def delete_rows(home: Home, name: str, predicate: str) -> None:
    """Delete the rows for which an SQL predicate is true."""
    allow_changes(home.table(name))
    ledger_tables.delete(home, name, predicate)
