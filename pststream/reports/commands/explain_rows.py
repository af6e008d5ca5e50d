"""Read what explanations need: the rows of one object or subscription id, and the state of the home.

The rows are accepted rows, rows of `matches` and rejected rows. For `pststream explain` and the look-ups (lookups.py).
"""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.utc_times import to_micros
from pststream.queries.conditions import as_attributes, first_failed_test
from pststream.queries.kinds.contract import FailedCondition, StoredObject, StoredSubscription, Validity
from pststream.queries.kinds.registry import request_columns, stored_kind
from pststream.reports.reading.object_ranking import AnswerEnd
from pststream.reports.reading.pairs import flatten_lists
from pststream.tables.delta_tables import TableReader
from pststream.tables.ledgers import LedgerHistory, done_batches_filter
from pststream.tables.log_events import WithdrawnRows, withdrawn_objects
from pststream.tables.owners import ID_COLUMNS

MAX_PER_ID = 200
"""Number of objects, and of insertions, that are read for one id: the latest ones."""

MAX_REQUESTS = 10_000
"""Number of requests, insertions and deletions together, that are read for one id: the latest ones."""

MAX_REJECTS = 5
_ENDING_COLUMNS = ("request_key", "op", "subscription_key", "replaced_key", "effective_at")
_COMMON_COLUMNS = (*_ENDING_COLUMNS, *ID_COLUMNS, "kind", "expires_at", "conditions")


def read_objects(reader: TableReader, object_id: str) -> list[StoredObject]:
    """Read the accepted objects of an id, the latest first: several if their times differ by more than the lateness."""
    columns = ("object_key", "object_id", "ts", "lon", "lat", "text", "text_breaks", "terms", "attributes")
    rows = _rows_of_id(reader, names.OBJECTS, columns, pds.field("object_id") == object_id, MAX_PER_ID)
    objects = [
        StoredObject(
            r["object_key"],
            r["object_id"],
            r["ts"],
            r["lon"],
            r["lat"],
            r["text"] or "",
            tuple(r["terms"] or ()),
            tuple(r["text_breaks"] or ()),
            as_attributes(r["attributes"]),
        )
        for r in rows
    ]
    return sorted(objects, key=lambda stored: -stored.key)[:MAX_PER_ID]


def read_insertions(reader: TableReader, owner: str, subscription_id: str) -> list[StoredSubscription]:
    """Read the insertions of an id of an owner, the latest first, each with its deletions."""
    columns = (*_COMMON_COLUMNS, *(column.name for column in request_columns()))
    wanted = (pds.field("subscription_id") == subscription_id) & (pds.field("owner") == owner)
    rows = _rows_of_id(reader, names.REQUESTS, columns, wanted, MAX_REQUESTS)
    return _insertions(rows)[::-1][:MAX_PER_ID]


def read_first_insertions(reader: TableReader, kind: str, most: int) -> list[StoredSubscription]:
    """Read some of the first insertions of a kind with memory, each with its deletions."""
    key, op = pds.field("request_key"), pds.field("op")
    wanted = (pds.field("kind") == kind) & pds.field("k").is_valid() & (op == "insert")
    some = next(reader.batches(names.REQUESTS, ["request_key"], wanted), None)
    if some is None:
        return []
    keys = np.sort(some.column(0).to_numpy())[:most].tolist()
    columns = (*_COMMON_COLUMNS, *(column.name for column in request_columns()))
    rows = reader.rows(names.REQUESTS, columns, key.isin(keys))
    of_keys = (pds.field("subscription_key").isin(keys) & (op == "delete")) | pds.field("replaced_key").isin(keys)
    deletions = reader.rows(names.REQUESTS, _ENDING_COLUMNS, of_keys)
    return _insertions([*rows, *({**row, "op": "delete"} for row in deletions)])


def _rows_of_id(
    reader: TableReader, name: str, columns: Sequence[str], wanted: pds.Expression, most: int
) -> list[dict[str, Any]]:
    """Read the latest rows with an id, `most` of them; the first of `columns` is the key.

    Ids are stored in no order, so a first read scans the column of ids for the keys of the rows. A second read takes
    all columns, but only from the row groups that may contain these keys.
    """
    keys = np.sort(reader.read(name, columns[:1], wanted).column(0).to_numpy())[-most:].tolist()
    return reader.rows(name, columns, pds.field(columns[0]).isin(keys)) if keys else []


def _insertions(requests: list[dict[str, Any]]) -> list[StoredSubscription]:
    """Return the insertions among requests by ascending key, each with its deletions."""
    deletions: dict[int, list[tuple[int, dt.datetime]]] = {}
    for row in requests:
        ended = row["subscription_key"] if row["replaced_key"] is None else row["replaced_key"]
        if row["op"] == "delete" or row["replaced_key"] is not None:
            deletions.setdefault(ended, []).append((row["request_key"], row["effective_at"]))
    return [
        StoredSubscription(
            key=row["subscription_key"],
            owner=row["owner"],
            subscription_id=row["subscription_id"],
            kind=kind,
            query=kind.read_query(row),
            created_at=row["effective_at"],
            expires_at=row["expires_at"],
            deletions=tuple(sorted(set(deletions.get(row["subscription_key"], [])))),
            where=row.get("conditions"),
        )
        for row in sorted(requests, key=itemgetter("request_key"))
        if row["op"] == "insert"
        for kind in [stored_kind(row["kind"])]
    ]


def read_written_pairs(
    reader: TableReader, objects: Iterable[StoredObject], insertions: Iterable[StoredSubscription]
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the rows of `matches` from finished batches by (object key, subscription key)."""
    object_keys, keys = [stored.key for stored in objects], np.array([one.key for one in insertions], np.int64)
    wanted = done_batches_filter(reader) & pds.field("object_key").isin(object_keys)
    columns = ["object_key", "retracted", "worker", "batch_id", "plan_version"]
    pairs: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for batch in reader.batches(names.MATCHES, [*columns, "subscription_keys"], wanted):
        row, subscription = flatten_lists(batch.column("subscription_keys"))
        hit = np.isin(subscription, keys)
        rows = batch.select(columns).take(pa.array(row[hit])).to_pylist()
        for fields, key in zip(rows, subscription[hit].tolist()):
            pairs.setdefault((fields["object_key"], key), []).append(fields)
    return pairs


def read_rejects_of_id(reader: TableReader, kind: str, name: str) -> list[dict[str, Any]]:
    """Read the latest rejected rows where the id is the rejected value, or occurs in a row rejected as a whole."""
    whole_row = (pds.field("field") == "") & pc.match_substring(pds.field("raw"), name)
    wanted = (pds.field("kind") == kind) & ((pds.field("raw") == name) | whole_row)
    columns = ("file", "row", "field", "reason", "detail", "raw", "ingest_id")
    standing_alone = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    latest: list[dict[str, Any]] = []
    for batch in reader.batches(names.REJECTS, columns, wanted):
        rows = (row for row in batch.to_pylist() if row["raw"] == name or standing_alone.search(row["raw"]))
        latest = sorted([*latest, *rows], key=lambda row: (-row["ingest_id"], row["file"], row["row"]))[:MAX_REJECTS]
    return latest


Pair = dict[str, Any]
"""An object and a subscription with their explanation: see `explain.explain`."""

WITHDRAWN = "withdrawn"
"""The condition that the object of a pair is not withdrawn, before those of the kind of query."""

UNREADABLE = "unreadable keywords were accepted"


class ExplainContext:
    """The tables of a home as they are now.

    withdrawn   objects that are withdrawn
    applied     those whose withdrawal a batch has applied
    """

    def __init__(self, reader: TableReader) -> None:
        self.reader = reader
        self.ledgers = LedgerHistory(reader)
        self.withdrawn = withdrawn_objects(reader.home)
        self.applied = withdrawn_objects(reader.home, up_to=self.ledgers.objects_matched)

    def last_end(self) -> AnswerEnd | None:
        """Return the end of the last batch; None before the first batch with objects."""
        rows = self.ledgers.batches.sort_by("batch_id").slice(max(self.ledgers.batches.num_rows - 1, 0)).to_pylist()
        if not rows or rows[0]["stream_time"] is None:
            return None
        last, stream_time = rows[0], to_micros(rows[0]["stream_time"])
        return AnswerEnd(last["batch_id"], last["objects_to"], last["requests_to"], stream_time, self.applied)

    def erased_since(self, batch_id: int) -> bool:
        """Return whether objects or requests were erased since a batch began."""
        batches = self.ledgers.batches
        (before,) = batches.filter(pds.field("batch_id") == batch_id).column("removals").to_pylist()
        last = (self.reader.table(name).transaction_version(names.REMOVALS) for name in (names.OBJECTS, names.REQUESTS))
        return sum(0 if number is None else int(number) + 1 for number in last) > before

    def waiting(self, stored: StoredObject, subscription: StoredSubscription) -> list[str]:
        """Name which of the object and the subscription no finished batch has processed yet."""
        waiting = ["the object"] if stored.key > self.ledgers.objects_matched else []
        return waiting + (["the subscription"] if subscription.key > self.ledgers.requests_applied else [])


def find_withdrawal(withdrawn: WithdrawnRows, stored: StoredObject) -> FailedCondition | None:
    """Return the failed condition of a withdrawn object; None for any other."""
    if not withdrawn.contain(np.array([stored.key]))[0]:
        return None
    return FailedCondition(WITHDRAWN, "the object was withdrawn (pststream withdraw)")


WHERE = "where"
"""The condition on attributes, after the conditions of the kind that one object and the subscription decide."""


def find_failure(
    withdrawn: WithdrawnRows, stored: StoredObject, subscription: StoredSubscription, validity: Validity
) -> FailedCondition | None:
    """Return the first condition that an object fails, whatever stream time and other objects are."""
    failure = find_withdrawal(withdrawn, stored) or subscription.query.first_failure(stored, validity)
    test = None if failure else first_failed_test(subscription.where, stored.attributes)
    return FailedCondition(WHERE, test) if test else failure


def describe_waiting(waiting: Sequence[str]) -> str:
    """Say which of an object and a subscription wait for the next batch."""
    return f"{' and '.join(waiting)} {'wait' if len(waiting) > 1 else 'waits'} for the next batch (pststream match)"


def new_pair(state: str, stored: StoredObject, subscription: StoredSubscription) -> Pair:
    """Return the explanation of a pair of which nothing but its state is known."""
    return {
        "state": state, "condition": None, "reason": "", "problem": None, "object": stored,
        "subscription": subscription, "posting": None, "written": [], "retracted": [], "answer": None,
    }  # fmt: skip
