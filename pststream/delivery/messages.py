"""Build the JSON messages that subscribers receive: for a match, for its retraction, or a digest of many matches.

A message depends only on the tables, byte for byte. Its id is a hash of the kind, the object key and the subscription
key (of a digest: the batch id and the subscription key), and of the object id and the subscription id, so that the
messages of two homes that feed one queue do not collide.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pststream.kinds.registry import stored_kind
from pststream.sinks.contract import Message
from pststream.text.words import tokenize

_ENCODER = json.JSONEncoder(separators=(",", ":"))

MATCHED, RETRACTED, DIGEST = "matched", "retracted", "digest"
MAX_TEXT = 4_000
"""Characters of an object's text in a message; `text_cut` marks a longer text."""

DIGEST_OBJECTS = 100
"""Objects that a digest lists; `count` is the number of all of them."""


@dataclass(frozen=True)
class MessageObject:
    """An object as messages show it: `shown` is its part of the JSON, `words` are the words of its text."""

    key: int
    object_id: str
    shown: dict[str, Any]
    words: frozenset[str]


@dataclass(frozen=True)
class MessageSubscription:
    """A subscription as messages show it: `asked` are the words of its keywords."""

    key: int
    subscription_id: str
    shown: dict[str, Any]
    asked: frozenset[str]


def message_object(key: int, object_id: str, ts: str, lon: float, lat: float, text: str = "") -> MessageObject:
    """Build an object's part of messages; `ts` as ISO 8601."""
    shown = {"object_id": object_id, "ts": ts, "lon": lon, "lat": lat, "text": text[:MAX_TEXT]}
    if len(text) > MAX_TEXT:
        shown["text_cut"] = True
    return MessageObject(key, object_id, shown, frozenset(tokenize(text)))


def message_subscription(key: int, row: Mapping[str, Any]) -> MessageSubscription:
    """Build a subscription's part of messages from `subscription_id`, `payload` and the columns that its kind shows."""
    part = stored_kind(row["kind"]).message_part(row)
    payload = json.loads(row["payload"] or "null")
    shown = {"subscription_id": row["subscription_id"], **part.fields, "payload": payload}
    return MessageSubscription(key, row["subscription_id"], shown, part.words)


def pair_message(kind: str, batch_id: int, item: MessageObject, subscription: MessageSubscription) -> Message:
    """Build the message of a match or of its retraction; `retracts` is the id of the retracted message."""
    message_id = pair_id(kind, item, subscription)
    body: dict[str, Any] = {"id": message_id, "kind": kind, "batch_id": batch_id}
    if kind == RETRACTED:
        body["retracts"] = pair_id(MATCHED, item, subscription)
    body |= {"object": item.shown, "subscription": subscription.shown}
    body["words"] = sorted(subscription.asked & item.words)
    return Message(message_id, kind, subscription.subscription_id, _json(body))


def digest_message(
    batch_id: int, count: int, first: Sequence[MessageObject], subscription: MessageSubscription
) -> Message:
    """Build the digest of `count` pairs of a batch beyond the subscription's limit; it lists the objects `first`."""
    message_id = _hash(DIGEST, batch_id, subscription.key, "", subscription.subscription_id)
    objects = [
        {
            "id": pair_id(MATCHED, item, subscription),
            **{name: item.shown[name] for name in ("object_id", "ts", "lon", "lat")},
        }
        for item in first
    ]
    body = {
        "id": message_id, "kind": DIGEST, "batch_id": batch_id, "count": count, "objects": objects,
        "subscription": subscription.shown,
    }  # fmt: skip
    return Message(message_id, DIGEST, subscription.subscription_id, _json(body))


def pair_id(kind: str, item: MessageObject, subscription: MessageSubscription) -> str:
    """Return the id of a pair's message: 32 hexadecimal digits."""
    return _hash(kind, item.key, subscription.key, item.object_id, subscription.subscription_id)


def _hash(*parts: Any) -> str:
    return hashlib.sha256(_ENCODER.encode(parts).encode()).hexdigest()[:32]


def _json(body: dict[str, Any]) -> bytes:
    """Encode in ASCII, which no transport and no log changes, not even lone surrogates."""
    return _ENCODER.encode(body).encode("ascii")
