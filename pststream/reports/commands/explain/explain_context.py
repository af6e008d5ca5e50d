"""Read what all explanations of a home share: how far batches have come, withdrawn and erased objects."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import TableReader
from pststream.kinds.contract import FailedCondition, StoredObject, StoredSubscription
from pststream.ledgers.history import LedgerHistory
from pststream.ledgers.withdrawals import WithdrawnObjects, withdrawn_objects
from pststream.reports.reading.object_ranking import AnswerEnd
from pststream.utc_times import to_micros

Pair = dict[str, Any]
"""An object and a subscription with their explanation: see `explain.explain`."""

WITHDRAWN = "withdrawn"
"""The condition that the object of a pair is not withdrawn, before those of the kind of query."""

UNREADABLE = "unreadable keywords were accepted"


class ExplainContext:
    """The tables of a home as they are now.

    withdrawn   objects that are withdrawn
    applied     those of them whose withdrawal batches have applied
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


def find_withdrawal(withdrawn: WithdrawnObjects, stored: StoredObject) -> FailedCondition | None:
    """Return the failed condition of a withdrawn object; None for any other."""
    if not withdrawn.contain(np.array([stored.key]))[0]:
        return None
    return FailedCondition(WITHDRAWN, "the object was withdrawn (pststream withdraw)")


def describe_waiting(waiting: Sequence[str]) -> str:
    """Say which of an object and a subscription wait for the next batch."""
    return f"{' and '.join(waiting)} {'wait' if len(waiting) > 1 else 'waits'} for the next batch (pststream match)"


def new_pair(state: str, stored: StoredObject, subscription: StoredSubscription) -> Pair:
    """Return the explanation of a pair of which nothing but its state is known."""
    return {
        "state": state, "condition": None, "reason": "", "problem": None, "object": stored,
        "subscription": subscription, "posting": None, "written": [], "retracted": [], "answer": None,
    }  # fmt: skip
