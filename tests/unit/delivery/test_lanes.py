"""LaneSink delivers every message, each subscription in order, with several requests at a time."""

import threading
import time
from collections import Counter

import pytest

from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, SinkDown, lane_of
from pststream.delivery.sinks.registry import LaneSink
from pststream.pipeline.delivery.deliver import split_for_sink
from tests.sinks import Memory


def messages(count: int, subscriptions: int = 9) -> tuple[Message, ...]:
    return tuple(Message(str(n), "matched", f"s{n % subscriptions}", b"{}") for n in range(count))


class Slow(Memory):
    """Accepts batches slowly, and counts the concurrent requests."""

    at_once = most_at_once = 0
    lock = threading.Lock()

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Accept a batch, slowly; refuse message 7."""
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(0.02)
        with self.lock:
            self.at_once -= 1
        super().deliver(batch)
        return [Refusal(message, "seven") for message in batch.messages if message.id == "7"]


def test_concurrent_requests_keep_the_order() -> None:
    slow = Slow(max_messages=5)
    lanes = LaneSink(slow, 4)
    batches = list(split_for_sink(messages(60), lanes))
    refusals = [refusal for n, batch in enumerate(batches) for refusal in lanes.deliver(MessageBatch(f"x{n}", batch))]
    assert [refusal.message.id for refusal in refusals] == ["7"]
    assert slow.most_at_once > 1
    delivered = [message for batch in slow.batches for message in batch.messages]
    assert sorted(int(m.id) for m in delivered) == list(range(60))
    for subscription in range(9):
        of_subscription = [int(m.id) for m in delivered if m.subscription_id == f"s{subscription}"]
        assert of_subscription == sorted(of_subscription)
    assert all(len(batch.messages) <= 5 for batch in slow.batches)
    for batch in slow.batches:
        assert {lane_of(m.subscription_id, 4) for m in batch.messages} == {int(batch.id.split("-")[1])}
    first = {batch.id: batch for batch in slow.batches}
    slow.batches.clear()
    for n, batch in enumerate(batches):
        lanes.deliver(MessageBatch(f"x{n}", batch))
    assert {batch.id: batch for batch in slow.batches} == first, "a batch that comes again is cut as before"


def test_a_batch_is_at_most_one_request_for_each_lane() -> None:
    lanes = LaneSink(Memory(max_messages=5), 4)
    hot = tuple(split_for_sink(messages(60, subscriptions=1), lanes))
    assert [len(batch) for batch in hot] == [5] * 12, "messages of one subscription come in small batches"
    mixed = tuple(split_for_sink(messages(200), lanes))
    assert [message for batch in mixed for message in batch] == list(messages(200))
    assert max(Counter(lane_of(m.subscription_id, 4) for m in batch).most_common(1)[0][1] for batch in mixed) == 5


def test_each_response_is_reported() -> None:
    class Answering(Memory):
        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            batch.on_response()
            return super().deliver(batch)

    responses: list[int] = []
    LaneSink(Answering(), 4).deliver(MessageBatch("x", messages(12), lambda: responses.append(1)))
    assert len(responses) == len({lane_of(f"s{n}", 4) for n in range(9)})


def test_one_failed_lane_fails_the_batch() -> None:
    class Half(Memory):
        def deliver(self, batch: MessageBatch) -> list[Refusal]:
            if batch.id.endswith("-1"):
                raise SinkDown("lane 1")
            return super().deliver(batch)

    half = Half()
    with pytest.raises(SinkDown, match="lane 1"):
        LaneSink(half, 3).deliver(MessageBatch("x", messages(30)))
    assert half.batches, "the others had ended"
