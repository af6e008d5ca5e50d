"""Make homes with random matches for tests of delivery, without Spark."""

import json
import random
from collections.abc import Sequence
from typing import Any

from pststream.ledgers.ledger_rows import log_key
from pststream.state.home import Home
from tests.unit.reports.commands.homes import add_batch, add_file, insertion, match_row, thing

KEYWORDS = ("coffee AND (free OR cheap)", "free", "coffee OR tea", "cheap tea")
TEXTS = ("free coffee", "Cheap TEA and coffee", "free, free, free", "ein früher Kaffee: coffee")


def add_subscriptions(home: Home, count: int, seed: int = 0) -> list[int]:
    """Add insertions, every other one with a payload; return their keys."""
    rnd = random.Random(seed)
    rows = [
        insertion(
            row,
            f"s{row}",
            keywords=rnd.choice(KEYWORDS),
            payload=json.dumps({"title": f'"{row}" ü', "rank": row}) if row % 2 else None,
        )
        for row in range(1, count + 1)
    ]
    seq = add_file(home, "requests", rows)
    return [log_key(seq, row) for row in range(1, count + 1)]


def add_matched_batch(
    home: Home, keys: list[int], objects: int, seed: int, minutes: float = 0, retractions: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Add a file of objects and the batch that matched it, as unordered rows of two workers; return these rows."""
    rnd = random.Random(seed)
    rows = [
        thing(row, f"o{seed}-{row}", minutes + row / 60, text=rnd.choice(TEXTS), lon=row / 7)
        for row in range(1, objects + 1)
    ]
    seq = add_file(home, "objects", rows)
    rows_written = []
    for row in rows:
        mine = rnd.sample(keys, rnd.randint(0, len(keys)))
        cut = rnd.randint(0, len(mine))
        for worker, part in enumerate((mine[:cut], mine[cut:])):
            if part:
                fields = (log_key(seq, row["row"]), row["object_id"], minutes + row["row"] / 60, part)
                rows_written.append(match_row(*fields, worker=worker))
    rnd.shuffle(rows_written)
    add_batch(home, [*rows_written, *retractions], minutes=minutes)
    return rows_written


def retractions_of(rows_written: list[dict[str, Any]], subscription_key: int) -> list[dict[str, Any]]:
    """Make rows that retract the pairs of a subscription."""
    mine = [row for row in rows_written if subscription_key in row["subscription_keys"]]
    return [row | {"subscription_keys": [subscription_key], "retracted": True, "worker": -1} for row in mine]
