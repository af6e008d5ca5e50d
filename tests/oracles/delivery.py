"""Compute the messages of a home slowly: every pair and every change of every finished batch, in order, as plain dicts.

How a kind with memory shows its subscriptions is taken from the kind.
"""

import datetime as dt
import hashlib
import json
from collections import Counter
from typing import Any

from pststream.base import names
from pststream.queries.kinds.registry import stored_kind
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests.oracles import twin_expressions
from tests.oracles.text import words

Row = dict[str, Any]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def expected_messages(home: Home, limit: int = 0, seconds: int = 1) -> list[Row]:
    """Return the messages that a sink receives without faults, in order."""
    batches = [row for row in read_table(home.table(names.BATCHES)).to_pylist() if row["status"] == "done"]
    batches.sort(key=lambda row: row["batch_id"])
    things = {row["object_key"]: row for row in read_table(home.table(names.OBJECTS)).to_pylist()}
    asked = {row["request_key"]: row for row in read_table(home.table(names.REQUESTS)).to_pylist()}
    rows = read_table(home.table(names.MATCHES)).to_pylist()
    log = [row for row in read_table(home.table(names.ANSWER_LOG)).to_pylist() if row["part"] == "change"]
    messages: list[Row] = []
    counts: Counter[tuple[int, int]] = Counter()
    stream_time = None
    for batch in batches:
        window = int(batch["started_at"].timestamp()) // seconds
        pairs = sorted(
            (row["object_key"], row["retracted"], key)
            for row in rows
            if row["batch_id"] == batch["batch_id"]
            for key in row["subscription_keys"]
        )
        beyond: dict[int, list[int]] = {}
        for object_key, retracted, key in pairs:
            counts[window, key] += not retracted
            if limit and not retracted and counts[window, key] > limit:
                beyond.setdefault(key, []).append(object_key)
                continue
            messages.append(pair(batch["batch_id"], things[object_key], asked[key], retracted))
        messages += [digest(batch["batch_id"], [things[k] for k in beyond[key]], asked[key]) for key in sorted(beyond)]
        mine = [row for row in log if row["batch_id"] == batch["batch_id"]]
        for key in sorted({row["subscription_key"] for row in mine} & asked.keys()):
            of_one = [row for row in mine if row["subscription_key"] == key]
            all_changes = changes(batch, stream_time, of_one, things, asked[key])
            left = max(limit - counts[window, key], 0) if limit else len(all_changes)
            counts[window, key] += len(all_changes)
            messages += all_changes[:left]
            if all_changes[left:]:
                messages.append(digest_of_changes(batch, all_changes[left:], asked[key]))
        stream_time = batch["stream_time"]
    return messages


def pair(batch_id: int, thing: Row, asked: Row, retracted: bool) -> Row:
    ids = {kind: pair_id(kind, thing, asked) for kind in ("matched", "retracted")}
    kind = "retracted" if retracted else "matched"
    return {
        "id": ids[kind],
        "kind": kind,
        "batch_id": batch_id,
        **({"retracts": ids["matched"]} if retracted else {}),
        "object": whole(thing),
        "subscription": subscription(asked),
        "words": common_words(thing, asked),
    }


def digest(batch_id: int, things: list[Row], asked: Row) -> Row:
    return {
        "id": hashed("digest", batch_id, asked["request_key"], "", asked["subscription_id"]),
        "kind": "digest",
        "batch_id": batch_id,
        "count": len(things),
        "objects": [{"id": pair_id("matched", thing, asked), **shown(thing)} for thing in things[:100]],
        "subscription": subscription(asked),
    }


def changes(
    batch: Row, stream_before: dt.datetime | None, rows: list[Row], things: dict[int, Row], asked: Row
) -> list[Row]:
    """Return the messages of what a batch changes in one answer; `stream_before`: stream time before it."""
    objects = [row for row in rows if row["object_key"] is not None]
    messages = [
        object_change(batch, row, things.get(row["object_key"]), asked)
        for event in ("left", "entered")
        for row in sorted(objects, key=lambda row: row["rank"])
        if row["event"] == event
    ]
    for tick in sorted({row["ts"] for row in rows if row["object_key"] is None}):
        was_due = stream_before is not None and tick <= stream_before
        of_tick = sorted((row for row in rows if row["ts"] == tick), key=lambda row: row["rank"])
        messages.append(
            {
                "id": change_id("report", batch, asked, micros(tick)),
                "kind": "report",
                "tick": iso(tick),
                "correction": was_due and asked["request_key"] <= batch["requests_after"],
                "batch_id": batch["batch_id"],
                **{
                    event: [
                        {name: row[name] for name in ("rank", "term", "count")}
                        for row in of_tick
                        if row["event"] == event and row["count"]
                    ]
                    for event in ("left", "entered")
                },
                "subscription": subscription(asked),
            }
        )
    return messages


def object_change(batch: Row, row: Row, thing: Row | None, asked: Row) -> Row:
    """Return the message of an object that entered or left; `thing` is None if it was erased."""
    value = {"distance_m": row["value"]} if asked["kind"] == "knn" else {"score": -row["value"]}
    erased = {"object_id": None, "ts": iso(row["ts"]), "lon": None, "lat": None, "text": None}
    place = row["object_key"], micros(row["ts"])
    return {
        "id": change_id(row["event"], batch, asked, *place),
        "kind": row["event"],
        "batch_id": batch["batch_id"],
        "as_of": iso(batch["stream_time"]),
        "row": hashed("row", *place, asked["request_key"], asked["subscription_id"]),
        "rank": row["rank"],
        **value,
        "object": erased if thing is None else whole(thing),
        "subscription": subscription(asked),
        "words": [] if thing is None else common_words(thing, asked),
    }


def digest_of_changes(batch: Row, messages: list[Row], asked: Row) -> Row:
    """Return the digest of messages of one subscription."""
    listed = [
        {name: value for name, value in message.items() if name in ("id", "kind", "tick", "correction", "row", "rank")}
        | {name: message[name] for name in ("distance_m", "score") if name in message}
        | {name: message["object"][name] for name in ("object_id", "ts", "lon", "lat") if "object" in message}
        for message in messages[:100]
    ]
    return {
        "id": change_id("digest", batch, asked),
        "kind": "digest",
        "batch_id": batch["batch_id"],
        "as_of": iso(batch["stream_time"]),
        "count": len(messages),
        ("objects" if "object" in messages[0] else "reports"): listed,
        "subscription": subscription(asked),
    }


def shown(thing: Row) -> Row:
    return {"object_id": thing["object_id"], "ts": iso(thing["ts"]), "lon": thing["lon"], "lat": thing["lat"]}


def whole(thing: Row) -> Row:
    """Show an object with its text and the first attributes, which have 16 KiB of JSON together, each as an object."""
    attributes, left = Row(), 16 * 1024
    for name, one in thing["attributes"] or ():
        value = json.loads(one["value"]) if one["type"] in ("number", "boolean", "json") else one["value"]
        left -= len(json.dumps({name: value}, separators=(",", ":")))
        attributes |= {name: value} if left >= 0 else {}
    is_cut = {"attributes_cut": True} if left < 0 else {}
    return shown(thing) | {"text": thing["text"]} | ({"attributes": attributes} if thing["attributes"] else {}) | is_cut


def subscription(asked: Row) -> Row:
    payload = json.loads(asked["payload"]) if asked["payload"] else None
    fields = {"keywords": asked["keywords"]}
    if asked["kind"] not in (None, "range"):
        fields = stored_kind(asked["kind"]).message_part(asked).fields
    fields |= {"where": json.loads(asked["conditions"])} if asked["conditions"] else {}
    return {"owner": asked["owner"], "subscription_id": asked["subscription_id"], **fields, "payload": payload}


def common_words(thing: Row, asked: Row) -> list[str]:
    wanted = included(twin_expressions.parse(asked["keywords"])) if asked["keywords"] else set()
    return sorted(wanted & set(words(thing["text"])))


def included(tree: twin_expressions.Tree, counts: bool = True) -> set[str]:
    """Return the words of an expression, those of its phrases too, but not those that it excludes."""
    kind, inside = tree
    if kind == "words":
        return set(inside) if counts else set()
    if kind == "not":
        return included(inside, not counts)
    return {word for part in inside or () for word in included(part, counts)}


def pair_id(kind: str, thing: Row, asked: Row) -> str:
    return hashed(kind, thing["object_key"], asked["request_key"], thing["object_id"], asked["subscription_id"])


def change_id(kind: str, batch: Row, asked: Row, *place: int) -> str:
    covered = [batch[name] for name in ("objects_after", "objects_to", "requests_after", "requests_to")]
    return hashed(kind, *covered, asked["request_key"], asked["subscription_id"], *place)


def iso(moment: dt.datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def hashed(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:32]
