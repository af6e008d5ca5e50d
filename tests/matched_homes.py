"""Make homes with random matches and changes of answers for tests of delivery, without Spark."""

import json
import random
from collections.abc import Sequence
from typing import Any

from pststream.base import names
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger, log_key
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    at,
    insertion,
    log_row,
    match_row,
    thing,
)

KEYWORDS = ("coffee AND (free OR cheap)", "free", "coffee OR tea", "cheap tea")
HOUR_US = 3_600_000_000
POINT = {"lon": 1.0, "lat": 2.0, "k": 5}
STANDING = (
    {"kind": "knn", **POINT},
    {"kind": "topk", "keywords": "cheap coffee", "alpha": 0.5, "distance_scale_m": 1e5, "window_us": HOUR_US, **POINT},
    {"kind": "frequent_terms", "k": 4, "window_us": 2 * HOUR_US, "step_us": HOUR_US},
)
WORDS = ("free", "coffee", "früher", "tea", "cake")
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


def add_standing(home: Home, count: int) -> list[int]:
    """Add insertions of the kinds with memory, by turns, some with a payload; return their keys."""
    rows = [
        insertion(row, f"m{row}", payload=f'{{"n": {row}}}' if row % 2 else None) | STANDING[row % 3]
        for row in range(1, count + 1)
    ]
    seq = add_file(home, "requests", rows)
    return [log_key(seq, row) for row in range(1, count + 1)]


def add_changes(
    home: Home, batch_id: int, standing: Sequence[int], seed: int, minutes: float = 0
) -> dict[str, dict[str, int]]:
    """Add random changes of answers by a batch, in two files and no order; return the count of its row."""
    rnd = random.Random(seed)
    things = read_table(home.table(names.OBJECTS)).to_pylist()
    rows: list[dict[str, Any]] = []
    for number, key in enumerate(standing, 1):
        sides = [{"batch_id": batch_id, "subscription_key": key, "event": event} for event in ("left", "entered")]
        if number % 3 != 2:
            for side in sides:
                drawn = rnd.sample(things, min(rnd.randint(0, 6), len(things)))
                value = rnd.uniform(-1, -0.1) if number % 3 else rnd.uniform(0, 1e5)
                rows += [
                    log_row(**side, object_key=one["object_key"], ts=one["ts"], rank=rank, value=value + rank / 100)
                    for rank, one in enumerate(drawn, 1)
                ]
            continue
        for tick in rnd.sample(range(-2, 6), 3):
            for side in sides[rnd.randint(0, 1) :]:
                rows += [
                    log_row(**side, ts=at(60 * tick + minutes), rank=rank, term=term, count=9 - rank)
                    for rank, term in enumerate(rnd.sample(WORDS, 3), 1)
                ]
    rnd.shuffle(rows)
    cut = len(rows) // 3
    for part in (rows[:cut], rows[cut:]):
        add_answer_rows(home, names.ANSWER_LOG, part, part="change")
    return {"changes": {"knn": len(rows), "topk": 0}}


def add_matched_batch(
    home: Home,
    keys: list[int],
    objects: int,
    seed: int,
    minutes: float = 0,
    retractions: Sequence[dict[str, Any]] = (),
    standing: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """Add a file of objects and the batch that matched it, as unordered rows of two workers; return these rows.

    The batch also changes the answers of `standing`.
    """
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
    changes = add_changes(home, Ledger(home).next_batch_id, standing, seed) if standing else {}
    add_batch(home, [*rows_written, *retractions], minutes=minutes, stream_time=at(minutes + objects / 60), **changes)
    return rows_written


def retractions_of(rows_written: list[dict[str, Any]], subscription_key: int) -> list[dict[str, Any]]:
    """Make rows that retract the pairs of a subscription."""
    mine = [row for row in rows_written if subscription_key in row["subscription_keys"]]
    return [row | {"subscription_keys": [subscription_key], "retracted": True, "worker": -1} for row in mine]
