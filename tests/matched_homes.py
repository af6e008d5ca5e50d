"""Homes with matches, written by hand at random: what delivery reads, made without Spark."""

import json
import random
from collections.abc import Sequence
from typing import Any

from pststream.state.home import Home
from pststream.state.ledger import key
from tests.unit.reports.commands.homes import add_batch, add_file, insertion, match_row, thing

KEYWORDS = ("coffee AND (free OR cheap)", "free", "coffee OR tea", "cheap tea")
TEXTS = ("free coffee", "Cheap TEA and coffee", "free, free, free", "ein früher Kaffee: coffee")


def add_subscriptions(home: Home, count: int, seed: int = 0) -> list[int]:
    """Insertions, every other one with a payload; their keys."""
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
    return [key(seq, row) for row in range(1, count + 1)]


def add_matched_batch(
    home: Home, keys: list[int], objects: int, seed: int, minutes: float = 0, taken_back: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """A file of objects and the batch that matched it, in two workers' rows and no order; the rows that it wrote."""
    rnd = random.Random(seed)
    rows = [
        thing(row, f"o{seed}-{row}", minutes + row / 60, text=rnd.choice(TEXTS), lon=row / 7)
        for row in range(1, objects + 1)
    ]
    seq = add_file(home, "objects", rows)
    found = []
    for row in rows:
        mine = rnd.sample(keys, rnd.randint(0, len(keys)))
        cut = rnd.randint(0, len(mine))
        for worker, part in enumerate((mine[:cut], mine[cut:])):
            if part:
                fields = (key(seq, row["row"]), row["object_id"], minutes + row["row"] / 60, part)
                found.append(match_row(*fields, worker=worker))
    rnd.shuffle(found)
    add_batch(home, [*found, *taken_back], minutes=minutes)
    return found


def taken_back_of(found: list[dict[str, Any]], subscription_key: int) -> list[dict[str, Any]]:
    """Rows that take the pairs of a subscription back."""
    mine = [row for row in found if subscription_key in row["subscription_keys"]]
    return [row | {"subscription_keys": [subscription_key], "retracted": True, "worker": -1} for row in mine]
