"""One subscription and one object, as the tables know them: what they are, and the latest pairs that hold."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.kinds.contract import StoredObject, StoredSubscription
from pststream.kinds.registry import brief_columns, stored_kind
from pststream.ledgers.history import LedgerHistory, done_batches_filter
from pststream.reports.commands.explain_rows import lives_of, rejected_rows, things_of
from pststream.reports.reading.pairs import opened, taken_back
from pststream.reports.reading.table_reader import Reader

LATEST = 25
LOOKED_AT = 4_000_000
"""Pairs that are searched for those of one subscription: they lie in the order of the batches, not in its own."""

SHOWN = 40
MOST_FOUND = 10_000
"""Pairs of one id that are held, the latest or the first; more are counted."""

_THINGS = 5


@dataclass(frozen=True)
class Met:
    """A pair that holds: the id of the other side, its keywords if that is a subscription, and who found it."""

    other: str
    keywords: str
    ts: dt.datetime
    batch_id: int
    worker: int


@dataclass(frozen=True)
class SubscriptionFile:
    """lives: each insertion of the id, the latest first; looked_at: pairs that were searched; whole: these are all."""

    lives: list[StoredSubscription]
    applied: int
    met: list[Met]
    looked_at: int
    whole: bool
    rejects: list[dict[str, Any]]


@dataclass(frozen=True)
class ObjectFile:
    """things: each object of the id, the latest first; matched_to: key up to which batches are done; pairs: in all."""

    things: list[StoredObject]
    matched_to: int
    met: list[Met]
    pairs: int
    rejects: list[dict[str, Any]]


def subscription_file(reader: Reader, subscription_id: str) -> SubscriptionFile:
    """What is known of a subscription id; no lives if none was accepted."""
    ledgers = LedgerHistory(reader)
    lives = lives_of(reader, subscription_id)
    met, looked_at, whole = _objects_of(reader, [life.key for life in lives]) if lives else ([], 0, True)
    rejects = rejected_rows(reader, "requests", subscription_id)
    return SubscriptionFile(lives, ledgers.requests_applied, met, looked_at, whole, rejects)


def object_file(reader: Reader, object_id: str) -> ObjectFile:
    """What is known of an object id; no things if none was accepted."""
    ledgers = LedgerHistory(reader)
    things = things_of(reader, object_id)[:_THINGS]
    met, pairs = _subscriptions_of(reader, things) if things else ([], 0)
    return ObjectFile(things, ledgers.objects_matched, met, pairs, rejected_rows(reader, "objects", object_id))


def _objects_of(reader: Reader, keys: list[int]) -> tuple[list[Met], int, bool]:
    """The latest pairs of subscription keys, from the files of the latest batches; how many pairs were looked at."""
    wanted = done_batches_filter(reader) & (pds.field("worker") >= 0)
    columns = ("object_key", "object_id", "ts", "batch_id", "worker", "subscription_keys")
    found: list[tuple[dict[str, Any], int]] = []
    looked_at = 0
    for _, file in reader.files(names.MATCHES, "batch_id", wanted, greatest=True):
        if len(found) >= LATEST or looked_at >= LOOKED_AT:
            return _met(reader, found), looked_at, False
        for batch in reader.batches_of(names.MATCHES, file, columns, wanted):
            row, subscription = opened(batch.column("subscription_keys"))
            hit = np.isin(subscription, np.array(keys))
            looked_at += len(subscription)
            fields = batch.select(columns[:-1]).take(pa.array(row[hit])).to_pylist()
            found += zip(fields, subscription[hit].tolist())
            if len(found) >= MOST_FOUND or looked_at >= LOOKED_AT:
                return _met(reader, found), looked_at, False
    return _met(reader, found), looked_at, True


def _met(reader: Reader, found: Iterable[tuple[dict[str, Any], int]]) -> list[Met]:
    """The latest of the pairs that no batch took back."""
    latest = sorted(_held(reader, list(found)), key=lambda pair: (-pair[0]["batch_id"], pair[0]["object_key"]))
    return [Met(row["object_id"], "", row["ts"], row["batch_id"], row["worker"]) for row, _ in latest[:LATEST]]


def _held(reader: Reader, found: list[tuple[dict[str, Any], int]]) -> list[tuple[dict[str, Any], int]]:
    if not found:
        return []
    objects = np.array([row["object_key"] for row, _ in found])
    # Rows of no worker are in files of their own, which alone are opened for this.
    nobody = (
        done_batches_filter(reader)
        & (pds.field("worker") < 0)
        & pds.field("object_key").isin(np.unique(objects).tolist())
    )
    gone = taken_back(reader, nobody).hold(objects, np.array([key for _, key in found]))
    return [pair for pair, lost in zip(found, gone.tolist()) if not lost]


def _subscriptions_of(reader: Reader, things: list[StoredObject]) -> tuple[list[Met], int]:
    """Some pairs of the objects, and how many there are."""
    columns = ("object_key", "ts", "batch_id", "worker", "subscription_keys")
    mine = pds.field("object_key").isin([thing.key for thing in things]) & (pds.field("worker") >= 0)
    rows: list[tuple[dict[str, Any], int]] = []
    count = 0
    for batch in reader.batches(names.MATCHES, columns, done_batches_filter(reader) & mine):
        row, keys = opened(batch.column("subscription_keys"))
        fields = batch.select(columns[:-1]).to_pylist()
        count += len(keys)
        first = slice(MOST_FOUND - len(rows))
        rows += [(fields[place], key) for place, key in zip(row[first].tolist(), keys[first].tolist())]
    pairs = _held(reader, rows)
    shown = sorted(pairs, key=lambda pair: (-pair[0]["object_key"], pair[1]))[:SHOWN]
    wanted = pds.field("request_key").isin(sorted({key for _, key in shown}))
    told = reader.rows(names.REQUESTS, ("request_key", "subscription_id", *brief_columns()), wanted) if shown else []
    known = {row["request_key"]: row for row in told}
    met = [
        Met(known[key]["subscription_id"], _brief(known[key]), row["ts"], row["batch_id"], row["worker"])
        for row, key in shown
        if key in known
    ]
    if count <= MOST_FOUND:
        return met, len(pairs)
    mine = pds.field("object_key").isin([thing.key for thing in things]) & (pds.field("worker") < 0)
    return met, count - len(taken_back(reader, done_batches_filter(reader) & mine))


def _brief(row: dict[str, Any]) -> str:
    return stored_kind(row["kind"]).brief(row)
