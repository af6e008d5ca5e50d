"""Lanes: all is delivered, each subscription in its order, several requests at a time."""

import threading
import time

import pytest

from pststream.delivery.contract import Batch, Message, Refusal, SinkDown
from pststream.delivery.lanes import Lanes, lane_of
from tests.sinks import Memory


def messages(count: int, subscriptions: int = 9) -> tuple[Message, ...]:
    return tuple(Message(str(n), "matched", f"s{n % subscriptions}", b"{}") for n in range(count))


class Slow(Memory):
    """Takes its time, and knows how many did so at once."""

    at_once = most_at_once = 0
    lock = threading.Lock()

    def deliver(self, batch: Batch) -> list[Refusal]:
        """Take a batch, slowly; refuse what is numbered 7."""
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(0.02)
        with self.lock:
            self.at_once -= 1
        super().deliver(batch)
        return [Refusal(message, "seven") for message in batch.messages if message.id == "7"]


def test_all_in_order_and_at_once() -> None:
    slow = Slow(most_messages=5)
    lanes = Lanes(slow, 4)
    assert lanes.most_messages == 20
    refusals = lanes.deliver(Batch("x", messages(60)))
    assert [refusal.message.id for refusal in refusals] == ["7"]
    assert slow.most_at_once > 1
    told = [message for batch in slow.batches for message in batch.messages]
    assert sorted(int(m.id) for m in told) == list(range(60))
    for subscription in range(9):
        mine = [int(m.id) for m in told if m.subscription_id == f"s{subscription}"]
        assert mine == sorted(mine)
    assert all(len(batch.messages) <= 5 for batch in slow.batches)
    for batch in slow.batches:
        assert {lane_of(m.subscription_id, 4) for m in batch.messages} == {int(batch.id.split("-")[1])}
    first = {batch.id: batch for batch in slow.batches}
    slow.batches.clear()
    lanes.deliver(Batch("x", messages(60)))
    assert {batch.id: batch for batch in slow.batches} == first, "a batch that comes again is cut as before"


def test_one_that_fails_fails_all() -> None:
    class Half(Memory):
        def deliver(self, batch: Batch) -> list[Refusal]:
            if "-1-" in batch.id:
                raise SinkDown("lane 1")
            return super().deliver(batch)

    half = Half()
    with pytest.raises(SinkDown, match="lane 1"):
        Lanes(half, 3).deliver(Batch("x", messages(30)))
    assert half.batches, "the others had ended"
