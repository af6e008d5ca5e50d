"""What a chaos run has left, against what has to be there by the files alone."""

import hashlib
from collections import Counter
from typing import Any

from pststream import names
from pststream.state import ledger_tables
from pststream.state.home import Home as Tables
from tests.chaos.place import Place, told
from tests.oracles import twin_fast
from tests.oracles.delivery import expected_messages
from tests.oracles.twin import LogFile

AMISS = ("files_lost", "files_doubled", "rows_lost", "lost", "doubled", "wrong")
AMISS_DELIVERED = ("lost", "unknown", "changed")


def compare(place: Place) -> dict[str, Any]:
    """Counts of what is there, and of what is lost, doubled or wrong.

    The log is the order in which files were taken in, as the ledger tells it; what follows from it the twin says.
    """
    tables = Tables(place.home.path)
    rows = [row for row in ledger_tables.read(tables, names.FILES).to_pylist() if row["status"] == "done"]
    # Empty files of both kinds have the same bytes.
    taken = [(row["kind"], row["sha256"]) for row in sorted(rows, key=lambda row: row["file_seq"])]
    landed = {(kind, hashlib.sha256(path.read_bytes()).hexdigest()): path for kind, path in place.given}
    log = [LogFile(kind, landed[kind, sha]) for kind, sha in taken]
    outcome = twin_fast.outcome_of(log, place.world.lateness_seconds)
    exported = Counter(place.home.exported())
    return {
        "files": len(landed),
        "files_lost": len(landed.keys() - set(taken)),
        "files_doubled": len(taken) - len(set(taken)),
        "rows": sum(outcome.rows.values()),
        "rows_lost": sum(outcome.rows.values()) - sum(row["accepted"] + row["rejected"] for row in rows),
        "matches": len(outcome.matches),
        "lost": len(outcome.matches - set(exported)),
        "doubled": exported.total() - len(exported),
        "wrong": len(set(exported) - outcome.matches),
        "deliveries": {sink: _delivered(place, tables, messages) for sink, messages in told(place).items()},
    }


def is_right(found: dict[str, Any]) -> bool:
    """Whether nothing is amiss."""
    delivered = [sink[name] for sink in found["deliveries"].values() for name in AMISS_DELIVERED]
    return not any([*(found[name] for name in AMISS), *delivered])


def _delivered(place: Place, tables: Tables, messages: list[dict[str, Any]]) -> dict[str, int]:
    """What one sink was told. `unknown` is what the tables do not hold, nor held before they were restored."""
    expected = {message["id"]: message for message in expected_messages(tables)}
    first: dict[str, dict[str, Any]] = {}
    changed = sum(_told_apart(first.setdefault(message["id"], message), message) for message in messages)
    return {
        "expected": len(expected),
        "told": len(messages),
        "again": len(messages) - len(first),
        "lost": len(expected.keys() - first.keys()),
        "unknown": len(first.keys() - expected.keys() - place.allowed.keys()),
        "changed": changed + sum(_told_apart(expected.get(id, message), message) for id, message in first.items()),
    }


def _told_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two messages of one id differ, apart from the batch (a restored home does it again under another number)
    and from the words (the oracle tells those of alternatives too that another clause implies).
    """
    left_out = {"batch_id": 0, "words": []}
    return one | left_out != other | left_out
