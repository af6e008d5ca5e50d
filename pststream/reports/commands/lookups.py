"""Look up a subscription id or an object id for the Airflow pages: accepted rows, some matches, rejected rows."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.queries.kinds.contract import StoredObject, StoredSubscription
from pststream.queries.kinds.registry import brief_columns, stored_kind
from pststream.reports.commands.explain_rows import read_insertions, read_objects, read_rejects_of_id
from pststream.reports.reading.pairs import flatten_lists, read_retracted_pairs
from pststream.tables.delta_tables import TableReader
from pststream.tables.ledgers import LedgerHistory, done_batches_filter
from pststream.tables.owners import ID_COLUMNS, resolve_owner

MAX_OBJECTS_SHOWN = 25
"""The latest matched objects of a subscription that a look-up returns."""

MAX_PAIRS_SEARCHED = 4_000_000
"""Greatest number of pairs searched for one subscription; `matches` is ordered by batch, not by subscription."""

MAX_SUBSCRIPTIONS_SHOWN = 40
"""The matched subscriptions of an object that a look-up returns."""

MAX_PAIRS_KEPT = 10_000
"""Pairs of one id that are kept in memory; further pairs are only counted."""

MAX_OBJECTS = 5
"""The latest objects of an id that a look-up returns."""

Pair = tuple[dict[str, Any], int]
"""Fields of a row of `matches`, and a subscription key."""


@dataclass(frozen=True)
class LatestMatch:
    """A match of the looked-up id: the id that it matched; for a matched subscription its owner and query in one line.

    ts is the time of the object; batch_id and worker wrote the match.
    """

    owner: str
    other_id: str
    query: str
    ts: dt.datetime
    batch_id: int
    worker: int


@dataclass(frozen=True)
class SubscriptionLookup:
    """What the tables contain of a subscription id of an owner.

    insertions        of the id, the latest first; none if no subscription was accepted
    requests_applied  request key up to which batches are done
    searched          pairs that were searched for matches; complete: whether these are all pairs of the home
    """

    owner: str
    insertions: list[StoredSubscription]
    requests_applied: int
    matches: list[LatestMatch]
    searched: int
    complete: bool
    rejects: list[dict[str, Any]]


@dataclass(frozen=True)
class ObjectLookup:
    """What the tables contain of an object id.

    objects          of the id, the latest first; none if no object was accepted
    objects_matched  object key up to which batches are done
    pairs            number of all matches of the object; `matches` lists at most MAX_SUBSCRIPTIONS_SHOWN
    """

    objects: list[StoredObject]
    objects_matched: int
    matches: list[LatestMatch]
    pairs: int
    rejects: list[dict[str, Any]]


def look_up_subscription(reader: TableReader, subscription_id: str, owner: str | None = None) -> SubscriptionLookup:
    """Look up a subscription id; owner None: the only one who has it, see `resolve_owner`."""
    ledgers = LedgerHistory(reader)
    owner = resolve_owner(reader, subscription_id, owner)
    insertions = read_insertions(reader, owner, subscription_id)
    keys = [one.key for one in insertions if one.kind.answers is None]
    matches, searched, complete = _match_objects(reader, keys) if keys else ([], 0, True)
    rejects = read_rejects_of_id(reader, "requests", subscription_id)
    return SubscriptionLookup(owner, insertions, ledgers.requests_applied, matches, searched, complete, rejects)


def look_up_object(reader: TableReader, object_id: str) -> ObjectLookup:
    """Look up an object id."""
    ledgers = LedgerHistory(reader)
    objects = read_objects(reader, object_id)[:MAX_OBJECTS]
    matches, pairs = _match_subscriptions(reader, objects) if objects else ([], 0)
    rejects = read_rejects_of_id(reader, "objects", object_id)
    return ObjectLookup(objects, ledgers.objects_matched, matches, pairs, rejects)


def _match_objects(reader: TableReader, keys: list[int]) -> tuple[list[LatestMatch], int, bool]:
    """Return the latest matches of subscription keys, the number of pairs searched, and whether that is every pair.

    The files of the latest batches are searched first.
    """
    wanted = done_batches_filter(reader) & (pds.field("worker") >= 0)
    columns = ("object_key", "object_id", "ts", "batch_id", "worker", "subscription_keys")
    pairs: list[Pair] = []
    searched = 0
    for _, file in reader.files(names.MATCHES, "batch_id", wanted, greatest=True):
        if len(pairs) >= MAX_OBJECTS_SHOWN or searched >= MAX_PAIRS_SEARCHED:
            return _latest_objects(reader, pairs), searched, False
        for batch in reader.batches_of(names.MATCHES, file, columns, wanted):
            row, subscription = flatten_lists(batch.column("subscription_keys"))
            hit = np.isin(subscription, np.array(keys))
            searched += len(subscription)
            fields = batch.select(columns[:-1]).take(pa.array(row[hit])).to_pylist()
            pairs += zip(fields, subscription[hit].tolist())
            if len(pairs) >= MAX_PAIRS_KEPT or searched >= MAX_PAIRS_SEARCHED:
                return _latest_objects(reader, pairs), searched, False
    return _latest_objects(reader, pairs), searched, True


def _latest_objects(reader: TableReader, pairs: list[Pair]) -> list[LatestMatch]:
    latest = sorted(_without_retracted(reader, pairs), key=lambda pair: (-pair[0]["batch_id"], pair[0]["object_key"]))
    return [
        LatestMatch("", row["object_id"], "", row["ts"], row["batch_id"], row["worker"])
        for row, _ in latest[:MAX_OBJECTS_SHOWN]
    ]


def _without_retracted(reader: TableReader, pairs: list[Pair]) -> list[Pair]:
    if not pairs:
        return []
    objects = np.array([row["object_key"] for row, _ in pairs])
    # Retractions have no worker, so they are in data files of their own, and only these are read.
    wanted = (
        done_batches_filter(reader)
        & (pds.field("worker") < 0)
        & pds.field("object_key").isin(distinct_values(objects).tolist())
    )
    retracted = read_retracted_pairs(reader, wanted).contains(objects, np.array([key for _, key in pairs]))
    return [pair for pair, gone in zip(pairs, retracted.tolist()) if not gone]


def _match_subscriptions(reader: TableReader, objects: list[StoredObject]) -> tuple[list[LatestMatch], int]:
    """Return some matches of the objects, and the number of all their matches."""
    columns = ("object_key", "ts", "batch_id", "worker", "subscription_keys")
    of_objects = done_batches_filter(reader) & pds.field("object_key").isin([stored.key for stored in objects])
    rows: list[Pair] = []
    count = 0
    for batch in reader.batches(names.MATCHES, columns, of_objects & (pds.field("worker") >= 0)):
        row, keys = flatten_lists(batch.column("subscription_keys"))
        fields = batch.select(columns[:-1]).to_pylist()
        count += len(keys)
        first = slice(MAX_PAIRS_KEPT - len(rows))
        rows += [(fields[index], key) for index, key in zip(row[first].tolist(), keys[first].tolist())]
    pairs = _without_retracted(reader, rows)
    shown = sorted(pairs, key=lambda pair: (-pair[0]["object_key"], pair[1]))[:MAX_SUBSCRIPTIONS_SHOWN]
    wanted = pds.field("request_key").isin(sorted({key for _, key in shown}))
    inserted = ("request_key", *ID_COLUMNS, *brief_columns())
    requests = {row["request_key"]: row for row in reader.rows(names.REQUESTS, inserted, wanted)} if shown else {}
    brief = {key: stored_kind(row["kind"]).brief(row) for key, row in requests.items()}
    matches = [
        LatestMatch(of["owner"], of["subscription_id"], brief[key], row["ts"], row["batch_id"], row["worker"])
        for row, key in shown
        if (of := requests.get(key)) is not None
    ]
    if count <= MAX_PAIRS_KEPT:
        return matches, len(pairs)
    return matches, count - len(read_retracted_pairs(reader, of_objects & (pds.field("worker") < 0)))
