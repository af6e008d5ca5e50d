"""What the tables know of an object id and a subscription id: rows, matches, rejects."""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.kinds.contract import StoredObject, StoredSubscription
from pststream.kinds.registry import request_columns, stored_kind
from pststream.ledgers.history import done_batches_filter
from pststream.reports.reading.pairs import opened
from pststream.reports.reading.table_reader import Reader

MOST = 200
"""Objects, and insertions, of one id that are looked at: the latest."""

MOST_REJECTS = 5
_COMMON_COLUMNS = ("request_key", "op", "subscription_id", "subscription_key", "kind", "at", "expires_at")


def things_of(reader: Reader, object_id: str) -> list[StoredObject]:
    """The accepted objects of an id, the latest first: more than one if they lie further apart than the lateness."""
    columns = ("object_key", "object_id", "ts", "lon", "lat", "text", "terms")
    rows = _rows_of_id(reader, names.OBJECTS, columns, pds.field("object_id") == object_id)
    things = [
        StoredObject(
            r["object_key"], r["object_id"], r["ts"], r["lon"], r["lat"], r["text"] or "", tuple(r["terms"] or ())
        )
        for r in rows
    ]
    return sorted(things, key=lambda thing: -thing.key)[:MOST]


def lives_of(reader: Reader, subscription_id: str) -> list[StoredSubscription]:
    """The insertions of an id, the latest first, each with the deletions that name it."""
    columns = (*_COMMON_COLUMNS, *(column.name for column in request_columns()))
    rows = _rows_of_id(reader, names.REQUESTS, columns, pds.field("subscription_id") == subscription_id)
    deletions: dict[int, list[tuple[int, dt.datetime]]] = {}
    for row in rows:
        if row["op"] == "delete":
            deletions.setdefault(row["subscription_key"], []).append((row["request_key"], row["at"]))
    lives = [_life(row, deletions.get(row["subscription_key"], [])) for row in rows if row["op"] == "insert"]
    return sorted(lives, key=lambda life: -life.key)[:MOST]


def _rows_of_id(reader: Reader, name: str, columns: Sequence[str], wanted: pds.Expression) -> list[dict[str, Any]]:
    """The rows that tell an id; `columns` begins with the key.

    First their keys alone, then these rows: ids lie in no order, so that all of them are read, and of the other columns
    only what lies beside the rows.
    """
    keys = reader.read(name, columns[:1], wanted).column(0).to_pylist()
    return reader.rows(name, columns, pds.field(columns[0]).isin(keys)) if keys else []


def _life(row: dict[str, Any], deletions: list[tuple[int, dt.datetime]]) -> StoredSubscription:
    kind = stored_kind(row["kind"])
    return StoredSubscription(
        key=row["subscription_key"],
        subscription_id=row["subscription_id"],
        kind=kind,
        query=kind.read_query(row),
        created_at=row["at"],
        expires_at=row["expires_at"],
        deletions=tuple(sorted(deletions)),
    )


def written_pairs(
    reader: Reader, things: Iterable[StoredObject], lives: Iterable[StoredSubscription]
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Rows of `matches`, of batches that are done, for each (object key, subscription key) that has some."""
    object_keys, keys = [thing.key for thing in things], np.array([life.key for life in lives], np.int64)
    wanted = done_batches_filter(reader) & pds.field("object_key").isin(object_keys)
    columns = ["object_key", "retracted", "worker", "batch_id", "plan_version"]
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for batch in reader.batches(names.MATCHES, [*columns, "subscription_keys"], wanted):
        row, subscription = opened(batch.column("subscription_keys"))
        hit = np.isin(subscription, keys)
        told = batch.select(columns).take(pa.array(row[hit])).to_pylist()
        for fields, key in zip(told, subscription[hit].tolist()):
            found.setdefault((fields["object_key"], key), []).append(fields)
    return found


def rejected_rows(reader: Reader, kind: str, name: str) -> list[dict[str, Any]]:
    """Some rejected rows that tell this id: as the value at fault, or somewhere in a row that could not be read."""
    whole_row = (pds.field("field") == "") & pc.match_substring(pds.field("raw"), name)
    wanted = (pds.field("kind") == kind) & ((pds.field("raw") == name) | whole_row)
    columns = ("file", "row", "field", "reason", "detail", "raw", "ingest_id")
    standing_alone = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    found: list[dict[str, Any]] = []
    for batch in reader.batches(names.REJECTS, columns, wanted):
        rows = (row for row in batch.to_pylist() if row["raw"] == name or standing_alone.search(row["raw"]))
        found = sorted([*found, *rows], key=lambda row: (-row["ingest_id"], row["file"], row["row"]))[:MOST_REJECTS]
    return found
