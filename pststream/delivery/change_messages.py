"""Build the JSON messages of changes of answers: of a row that entered or left, of a report, or a digest of many.

A message depends only on the tables, byte for byte. Its id is a hash of its kind, of the part of both logs that its
batch covered, of the subscription (key and id), and of the object key and `ts`, or of the tick. So the same batch has
the same ids under any number, and another cut of the logs, which makes other changes, has other ids. No id depends on
the id of an object, which may have been erased.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pststream.base.utc_times import from_micros, iso
from pststream.delivery.messages import (
    DIGEST,
    DIGEST_OBJECTS,
    MessageObject,
    MessageSubscription,
    encode_body,
    hash_parts,
    show_briefly,
)
from pststream.delivery.sinks.contract import Message
from pststream.queries.kinds.contract import AnswerRow

ENTERED, LEFT, REPORT = "entered", "left", "report"


@dataclass(frozen=True)
class ChangeBatch:
    """What messages show of the batch that made the changes.

    objects_after, objects_to, requests_after, requests_to   the part of both logs that it covered
    as_of            stream time after it, ISO 8601; None: there was none
    reported_until   stream time before it, microseconds: earlier batches have made the reports of ticks up to it
    """

    batch_id: int
    objects_after: int
    objects_to: int
    requests_after: int
    requests_to: int
    as_of: str | None
    reported_until: int

    def message_id(self, kind: str, subscription: MessageSubscription, *parts: int) -> str:
        """Return the id of a message of this batch: 32 hexadecimal digits."""
        covered = (self.objects_after, self.objects_to, self.requests_after, self.requests_to)
        return hash_parts(kind, *covered, subscription.key, subscription.subscription_id, *parts)

    def corrects(self, tick: int, subscription: MessageSubscription) -> bool:
        """Whether an earlier batch has made the report of a tick (microseconds), or found that it has no word."""
        return tick <= self.reported_until and subscription.key <= self.requests_after


class ObjectChange(NamedTuple):
    """An object that entered or left an answer; `ts` in microseconds."""

    change: str
    ts: int
    item: MessageObject
    row: AnswerRow


class TermChange(NamedTuple):
    """A word that entered or left a report."""

    change: str
    row: AnswerRow


def object_message(batch: ChangeBatch, change: ObjectChange, subscription: MessageSubscription) -> Message:
    """Build the message of an object that entered or left an answer."""
    body = {
        **_head(batch, change, subscription),
        "batch_id": batch.batch_id,
        "as_of": batch.as_of,
        **_place(change, subscription),
        "object": change.item.shown,
        "subscription": subscription.shown,
        "words": sorted(subscription.asked & change.item.words),
    }
    return Message(body["id"], change.change, subscription.subscription_id, encode_body(body), subscription.owner)


def report_message(
    batch: ChangeBatch, tick: int, changes: Sequence[TermChange], subscription: MessageSubscription
) -> Message:
    """Build the message of a report: the words that entered and left it, in the order of `changes`.

    The row of an empty report is no word.
    """
    words = [one for one in changes if one.row.count]
    body = {
        **_report_head(batch, tick, subscription),
        "batch_id": batch.batch_id,
        **{name: [subscription.show_row(one.row) for one in words if one.change == name] for name in (LEFT, ENTERED)},
        "subscription": subscription.shown,
    }
    return Message(body["id"], REPORT, subscription.subscription_id, encode_body(body), subscription.owner)


def object_digest(
    batch: ChangeBatch, count: int, first: Sequence[ObjectChange], subscription: MessageSubscription
) -> Message:
    """Build the digest of `count` objects that entered or left an answer beyond the limit; it lists those in `first`.

    Raises no error where `first` has more than DIGEST_OBJECTS: the rest is left out.
    """
    listed = [
        _head(batch, one, subscription) | _place(one, subscription) | show_briefly(one.item)
        for one in first[:DIGEST_OBJECTS]
    ]
    return _digest(batch, {"count": count, "objects": listed}, subscription)


def report_digest(batch: ChangeBatch, ticks: Sequence[int], subscription: MessageSubscription) -> Message:
    """Build the digest of the reports of ticks beyond the limit; it lists the first DIGEST_OBJECTS of them."""
    listed = [_report_head(batch, tick, subscription) for tick in ticks[:DIGEST_OBJECTS]]
    return _digest(batch, {"count": len(ticks), "reports": listed}, subscription)


def _digest(batch: ChangeBatch, content: dict[str, Any], subscription: MessageSubscription) -> Message:
    message_id = batch.message_id(DIGEST, subscription)
    body = {
        "id": message_id, "kind": DIGEST, "batch_id": batch.batch_id, "as_of": batch.as_of, **content,
        "subscription": subscription.shown,
    }  # fmt: skip
    return Message(message_id, DIGEST, subscription.subscription_id, encode_body(body), subscription.owner)


def _head(batch: ChangeBatch, change: ObjectChange, subscription: MessageSubscription) -> dict[str, Any]:
    message_id = batch.message_id(change.change, subscription, change.item.key, change.ts)
    return {"id": message_id, "kind": change.change}


def _place(change: ObjectChange, subscription: MessageSubscription) -> dict[str, Any]:
    """Show which row of the answer it is, and its rank; `row` is the same whenever the object enters or leaves."""
    row_id = hash_parts("row", change.item.key, change.ts, subscription.key, subscription.subscription_id)
    return {"row": row_id, **subscription.show_row(change.row)}


def _report_head(batch: ChangeBatch, tick: int, subscription: MessageSubscription) -> dict[str, Any]:
    return {
        "id": batch.message_id(REPORT, subscription, tick),
        "kind": REPORT,
        "tick": iso(from_micros(tick)),
        "correction": batch.corrects(tick, subscription),
    }
