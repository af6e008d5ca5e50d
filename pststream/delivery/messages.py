"""Build the JSON messages of matches, retractions and digests, and find the matches beyond a subscription's limit.

`change_messages.py` has those of changes of answers, of the same objects and subscriptions.

A message depends only on the tables, byte for byte. Its id is a hash of the kind, the object key and the subscription
key (of a digest: the batch id and the subscription key), and of the object id and the subscription id, so that the
messages of two homes that feed one queue do not collide.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import numpy as np

from pststream.base.arrays import distinct_values, look_up
from pststream.delivery.sinks.contract import Message
from pststream.queries.kinds.contract import AnswerRow, Answers
from pststream.queries.kinds.registry import stored_kind
from pststream.queries.text.words import tokenize

_ENCODER = json.JSONEncoder(separators=(",", ":"))
_TOO_DEEP: Any = object()
"""Stands for a payload that no reader of JSON can decode."""

MATCHED, RETRACTED, DIGEST = "matched", "retracted", "digest"
MAX_TEXT = 4_000
"""Characters of an object's text in a message; `text_cut` marks a longer text."""

MAX_ATTRIBUTES = 16_384
"""Bytes of JSON of an object's attributes in a message; `attributes_cut` says that it has more."""

MAX_ID = 4_096
MAX_FIELD = 524_288
"""Bytes of JSON of an object's id, and of a field of a subscription, in a message. Homes may have longer ones from
before ids and payloads were bounded. Of a longer text the message has the first MAX_ID / 6 characters, of another value
null, and the key `cut` lists the names of these fields.
"""

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
    """A subscription as messages show it: `asked` are the words of its keywords, `answers` are those of its kind."""

    key: int
    owner: str
    subscription_id: str
    shown: dict[str, Any]
    asked: frozenset[str]
    answers: Answers | None

    def show_row(self, row: AnswerRow) -> dict[str, Any]:
        """Return a row of its answer as messages show it."""
        if self.answers is None:
            raise ValueError(f"subscription {self.subscription_id!r} is of a kind without answers")
        return self.answers.show_row(row)


def message_object(
    key: int,
    object_id: str,
    ts: str,
    lon: float,
    lat: float,
    text: str = "",
    attributes: Mapping[str, Any] | None = None,
) -> MessageObject:
    """Build an object's part of messages; `ts` as ISO 8601."""
    shown: dict[str, Any] = {"object_id": object_id, "ts": ts, "lon": lon, "lat": lat, "text": text[:MAX_TEXT]}
    if len(text) > MAX_TEXT:
        shown["text_cut"] = True
    if attributes:
        shown["attributes"] = _first_attributes(attributes)
        if len(shown["attributes"]) < len(attributes):
            shown["attributes_cut"] = True
    return MessageObject(key, object_id, _cut(shown, {"object_id": MAX_ID}), frozenset(tokenize(text)))


def _first_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first attributes that have MAX_ATTRIBUTES bytes of JSON together."""
    members = [len(_ENCODER.encode({name: value})) for name, value in attributes.items()]
    most = sum(size <= MAX_ATTRIBUTES for size in accumulate(members))
    return dict(islice(attributes.items(), most))


def erased_object(key: int, ts: str) -> MessageObject:
    """Build the part of messages of an object that was erased: its time alone is known."""
    return MessageObject(key, "", {"object_id": None, "ts": ts, "lon": None, "lat": None, "text": None}, frozenset())


def message_subscription(key: int, row: Mapping[str, Any]) -> MessageSubscription:
    """Build a subscription's part of messages from `owner`, `subscription_id`, `payload`, `conditions`, and what its
    kind shows.
    """
    kind = stored_kind(row["kind"])
    part = kind.message_part(row)
    owner, subscription_id = row["owner"], row["subscription_id"]
    shown = {
        "owner": owner,
        "subscription_id": subscription_id,
        **part.fields,
        **({"where": json.loads(row["conditions"])} if row["conditions"] else {}),
        "payload": _read_payload(row["payload"]),
    }
    shown = _cut(shown, dict.fromkeys(shown, MAX_FIELD))
    return MessageSubscription(key, owner, subscription_id, shown, part.words, kind.answers)


def _read_payload(payload: str | None) -> Any:
    """Return a payload; one that is nested too deeply for any reader, from before this was checked, is cut."""
    try:
        return json.loads(payload or "null")
    except RecursionError:
        return _TOO_DEEP


def _cut(shown: dict[str, Any], limits: Mapping[str, int]) -> dict[str, Any]:
    """Return fields of a message without what is longer than its limit."""
    too_long = [name for name, limit in limits.items() if _is_longer(shown[name], limit)]
    if not too_long:
        return shown
    short = {name: shown[name][: MAX_ID // 6] if isinstance(shown[name], str) else None for name in too_long}
    return shown | short | {"cut": too_long}


def _is_longer(value: Any, limit: int) -> bool:
    """Whether a value has more bytes as JSON, or cannot be written as JSON."""
    if value is None or (isinstance(value, str) and 12 * len(value) + 2 <= limit):  # a character has 12 at most
        return False
    try:
        return value is _TOO_DEEP or len(_ENCODER.encode(value)) > limit
    except RecursionError:
        return True


def pair_message(kind: str, batch_id: int, item: MessageObject, subscription: MessageSubscription) -> Message:
    """Build the message of a match or of its retraction; `retracts` is the id of the retracted message."""
    message_id = pair_id(kind, item, subscription)
    body: dict[str, Any] = {"id": message_id, "kind": kind, "batch_id": batch_id}
    if kind == RETRACTED:
        body["retracts"] = pair_id(MATCHED, item, subscription)
    body |= {"object": item.shown, "subscription": subscription.shown}
    body["words"] = sorted(subscription.asked & item.words)
    return Message(message_id, kind, subscription.subscription_id, encode_body(body), subscription.owner)


def digest_message(
    batch_id: int, count: int, first: Sequence[MessageObject], subscription: MessageSubscription
) -> Message:
    """Build the digest of `count` pairs of a batch beyond the subscription's limit; it lists the objects `first`."""
    message_id = hash_parts(DIGEST, batch_id, subscription.key, "", subscription.subscription_id)
    objects = [{"id": pair_id(MATCHED, item, subscription), **show_briefly(item)} for item in first]
    body = {
        "id": message_id, "kind": DIGEST, "batch_id": batch_id, "count": count, "objects": objects,
        "subscription": subscription.shown,
    }  # fmt: skip
    return Message(message_id, DIGEST, subscription.subscription_id, encode_body(body), subscription.owner)


def show_briefly(item: MessageObject) -> dict[str, Any]:
    """Show an object without its text, as digests list it."""
    return {name: item.shown[name] for name in ("object_id", "ts", "lon", "lat")}


def pair_id(kind: str, item: MessageObject, subscription: MessageSubscription) -> str:
    """Return the id of a pair's message: 32 hexadecimal digits."""
    return hash_parts(kind, item.key, subscription.key, item.object_id, subscription.subscription_id)


def hash_parts(*parts: Any) -> str:
    """Return a hash of values that JSON can write: 32 hexadecimal digits."""
    return hashlib.sha256(_ENCODER.encode(parts).encode()).hexdigest()[:32]


def encode_body(body: dict[str, Any]) -> bytes:
    """Encode in ASCII, which no transport and no log changes, not even lone surrogates."""
    return _ENCODER.encode(body).encode("ascii")


class MessageLimiter:
    """Counts the pairs of each subscription and finds those beyond the limit, which become one digest instead.

    Takes 16 bytes for each counted subscription.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)

    def count(self, keys: np.ndarray) -> np.ndarray:
        """Count pairs, in order, by their subscription keys int64[n]; return which are beyond the limit: bool[n]."""
        if not len(keys):
            return np.zeros(0, bool)
        order = np.argsort(keys, kind="stable")
        distinct, first, size = np.unique(keys[order], return_index=True, return_counts=True)
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - np.repeat(first, size)
        before = look_up(distinct, self._keys, self._counts, 0)
        beyond = rank + before[np.searchsorted(distinct, keys)] >= self._limit
        merged = distinct_values(np.concatenate([self._keys, distinct]))
        counts = np.zeros(len(merged), np.int64)
        counts[np.searchsorted(merged, self._keys)] = self._counts
        counts[np.searchsorted(merged, distinct)] += size
        self._keys, self._counts = merged, counts
        return beyond
