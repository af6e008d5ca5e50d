"""The messages: what subscribers read. A message is a pure function of the tables, byte for byte.

An id is a hash of kind, object key and subscription key (of a digest: batch and subscription key), and of the ids that
these stand for, so that two homes that feed one queue do not collide.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pststream.delivery.contract import Message
from pststream.kinds.registry import stored_kind
from pststream.text.words import tokenize

_ENCODER = json.JSONEncoder(separators=(",", ":"))

MATCHED, RETRACTED, DIGEST = "matched", "retracted", "digest"
MOST_TEXT = 4_000
"""Characters of an object's text in a message; `text_cut` says that there were more."""

DIGEST_OBJECTS = 100
"""Objects that a digest names; `count` says how many there are."""


@dataclass(frozen=True)
class Told:
    """An object as messages show it: `shown` is its part of the JSON, `words` what its text holds."""

    key: int
    object_id: str
    shown: dict[str, Any]
    words: frozenset[str]


@dataclass(frozen=True)
class Subscriber:
    """A subscription as messages show it: `asked` are the words of its keywords."""

    key: int
    subscription_id: str
    shown: dict[str, Any]
    asked: frozenset[str]


def told(key: int, object_id: str, ts: str, lon: float, lat: float, text: str = "") -> Told:
    """An object's part of messages; `ts` as ISO 8601."""
    shown = {"object_id": object_id, "ts": ts, "lon": lon, "lat": lat, "text": text[:MOST_TEXT]}
    if len(text) > MOST_TEXT:
        shown["text_cut"] = True
    return Told(key, object_id, shown, frozenset(tokenize(text)))


def subscriber(key: int, row: Mapping[str, Any]) -> Subscriber:
    """A subscription's part of messages, from its columns `subscription_id`, `payload` and those that kinds show."""
    part = stored_kind(row["kind"]).message_part(row)
    payload = json.loads(row["payload"] or "null")
    shown = {"subscription_id": row["subscription_id"], **part.fields, "payload": payload}
    return Subscriber(key, row["subscription_id"], shown, part.words)


def pair_message(kind: str, batch_id: int, thing: Told, who: Subscriber) -> Message:
    """A pair that matched, or that was taken back; `retracts` is the id of the message that told of it."""
    identity = pair_id(kind, thing, who)
    body: dict[str, Any] = {"id": identity, "kind": kind, "batch_id": batch_id}
    if kind == RETRACTED:
        body["retracts"] = pair_id(MATCHED, thing, who)
    body |= {"object": thing.shown, "subscription": who.shown}
    body["words"] = sorted(who.asked & thing.words)
    return Message(identity, kind, who.subscription_id, _json(body))


def digest_message(batch_id: int, count: int, things: Sequence[Told], who: Subscriber) -> Message:
    """`count` pairs of a batch that went over the subscription's limit; `things` are the first of their objects."""
    identity = _hash(DIGEST, batch_id, who.key, "", who.subscription_id)
    objects = [
        {"id": pair_id(MATCHED, thing, who), **{name: thing.shown[name] for name in ("object_id", "ts", "lon", "lat")}}
        for thing in things
    ]
    body = {
        "id": identity, "kind": DIGEST, "batch_id": batch_id, "count": count, "objects": objects,
        "subscription": who.shown,
    }  # fmt: skip
    return Message(identity, DIGEST, who.subscription_id, _json(body))


def pair_id(kind: str, thing: Told, who: Subscriber) -> str:
    """The id of a pair's message: 32 hexadecimal digits."""
    return _hash(kind, thing.key, who.key, thing.object_id, who.subscription_id)


def _hash(*parts: Any) -> str:
    return hashlib.sha256(_ENCODER.encode(parts).encode()).hexdigest()[:32]


def _json(body: dict[str, Any]) -> bytes:
    """ASCII: what no transport and no log changes, lone surrogates too."""
    return _ENCODER.encode(body).encode("ascii")
