"""Waits grow with jitter, respect what the sink asks for, and end at the deadline."""

import time

import pytest

from pststream.delivery.sinks.contract import (
    FIRST_WAIT,
    LONGEST_WAIT,
    Message,
    MessageBatch,
    Refusal,
    RetryPolicy,
    SinkDown,
)

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
