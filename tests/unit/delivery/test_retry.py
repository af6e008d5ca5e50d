"""Waits grow with jitter, respect what the sink asks for, and end at the deadline; lanes, and the limit of messages."""

import threading
import time
from collections import Counter

import numpy as np
import pytest

from pststream.delivery.messages import MessageLimiter
from pststream.delivery.sinks.contract import (
    FIRST_WAIT,
    LONGEST_WAIT,
    Message,
    MessageBatch,
    Refusal,
    RetryPolicy,
    SinkDown,
    lane_of,
)
from pststream.delivery.sinks.registry import LaneSink
from pststream.pipeline.delivery.deliver import split_for_sink
from tests.fuzz.cases import seeds
from tests.sinks import Memory

BATCH = MessageBatch("1", (Message("a", "matched", "s", b"{}"),))


class Flaky:
    """Fails a number of times, then accepts."""

    max_messages = max_bytes = 10
    lanes = 1

    def __init__(self, failures: int, **error: float) -> None:
        self.failures = failures
        self.error = error

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Fail, or accept."""
        self.failures -= 1
        if self.failures >= 0:
            raise SinkDown("not now", **self.error)  # type: ignore[arg-type]
        return [Refusal(batch.messages[0], "no")]


def policy_and_waits(tries: int = 5, seconds: float = 1000.0) -> tuple[RetryPolicy, list[float]]:
    """A policy that only records its waits, each the longest that jitter allows, and the recorded waits."""
    waits: list[float] = []
    return RetryPolicy(tries, time.monotonic() + seconds, lambda _, most: most, waits.append), waits


def test_waits_double_up_to_a_bound() -> None:
    policy, waits = policy_and_waits(tries=9)
    assert policy.deliver(Flaky(8), BATCH)[0].reason == "no"
    assert waits == [min(LONGEST_WAIT, FIRST_WAIT * 2**n) for n in range(8)]
    assert policy.failures == 8


def test_the_last_try_is_the_last() -> None:
    policy, waits = policy_and_waits(tries=3)
    with pytest.raises(SinkDown):
        policy.deliver(Flaky(3), BATCH)
    assert len(waits) == 2


def test_a_permanent_fault_is_not_retried() -> None:
    policy, waits = policy_and_waits()
    with pytest.raises(SinkDown):
        policy.deliver(Flaky(1, permanent=True), BATCH)
    assert waits == []


def test_the_sink_can_ask_for_a_longer_wait() -> None:
    policy, waits = policy_and_waits()
    policy.deliver(Flaky(1, wait_seconds=42.0), BATCH)
    assert waits == [42.0]


def test_no_wait_beyond_the_deadline() -> None:
    policy, waits = policy_and_waits(seconds=30.0)
    with pytest.raises(SinkDown):
        policy.deliver(Flaky(1, wait_seconds=42.0), BATCH)
    assert waits == []


def test_jitter_spreads() -> None:
    draws = {RetryPolicy(2, 0.0).draw(0.0, 1.0) for _ in range(20)}
    assert len(draws) == 20 and all(0.0 <= draw <= 1.0 for draw in draws)


@seeds(20)
def test_as_counted_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(1, 6))
    limiter, counts = MessageLimiter(limit), Counter[int]()
    for _ in range(6):
        keys = rng.integers(0, 12, rng.integers(0, 30)) * 1_000_000_007
        expected = []
        for key in keys.tolist():
            counts[key] += 1
            expected.append(counts[key] > limit)
        assert limiter.count(keys).tolist() == expected


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
