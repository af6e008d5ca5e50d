"""Compute the messages of a home slowly: every pair of every finished batch, in order, as plain dicts.

Keywords are words, AND, OR and parentheses.
"""

import datetime as dt
import hashlib
import json
from collections import Counter
from typing import Any

from pststream import names
from pststream.state import ledger_tables
from pststream.state.home import Home
from tests.oracles.text import words


def expected_messages(home: Home, limit: int = 0, seconds: int = 1) -> list[dict[str, Any]]:
    """Return the messages that a sink receives without faults, in order."""
    batches = [row for row in ledger_tables.read(home, names.BATCHES).to_pylist() if row["status"] == "done"]
    things = {row["object_key"]: row for row in ledger_tables.read(home, names.OBJECTS).to_pylist()}
    asked = {row["request_key"]: row for row in ledger_tables.read(home, names.REQUESTS).to_pylist()}
    rows = ledger_tables.read(home, names.MATCHES).to_pylist()
    messages: list[dict[str, Any]] = []
    counts: Counter[tuple[int, int]] = Counter()
    for batch in sorted(batches, key=lambda row: row["batch_id"]):
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
    return messages


def pair(batch_id: int, thing: dict[str, Any], asked: dict[str, Any], retracted: bool) -> dict[str, Any]:
    ids = {kind: pair_id(kind, thing, asked) for kind in ("matched", "retracted")}
    kind = "retracted" if retracted else "matched"
    wanted = words((asked["keywords"] or "").replace("AND", " ").replace("OR", " "))
    return {
        "id": ids[kind],
        "kind": kind,
        "batch_id": batch_id,
        **({"retracts": ids["matched"]} if retracted else {}),
        "object": shown(thing) | {"text": thing["text"]},
        "subscription": subscription(asked),
        "words": sorted(set(wanted) & set(words(thing["text"]))),
    }


def digest(batch_id: int, things: list[dict[str, Any]], asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": hashed("digest", batch_id, asked["request_key"], "", asked["subscription_id"]),
        "kind": "digest",
        "batch_id": batch_id,
        "count": len(things),
        "objects": [{"id": pair_id("matched", thing, asked), **shown(thing)} for thing in things[:100]],
        "subscription": subscription(asked),
    }


def shown(thing: dict[str, Any]) -> dict[str, Any]:
    ts = thing["ts"].astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
    return {"object_id": thing["object_id"], "ts": ts, "lon": thing["lon"], "lat": thing["lat"]}


def subscription(asked: dict[str, Any]) -> dict[str, Any]:
    payload = json.loads(asked["payload"]) if asked["payload"] else None
    return {"subscription_id": asked["subscription_id"], "keywords": asked["keywords"], "payload": payload}


def pair_id(kind: str, thing: dict[str, Any], asked: dict[str, Any]) -> str:
    return hashed(kind, thing["object_key"], asked["request_key"], thing["object_id"], asked["subscription_id"])


def hashed(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:32]
