"""Sinks for tests: one that records messages, and one that fails with set probabilities, seeded."""

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, Sink, SinkDown


class Memory:
    """Accept all batches and record them in order."""

    def __init__(self, max_messages: int = 3) -> None:
        self.max_messages = max_messages
        self.max_bytes = 1_000_000
        self.lanes = 1
        self.batches: list[MessageBatch] = []

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Record a batch."""
        self.batches.append(batch)
        return []

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """All accepted messages, with repeats."""
        return [json.loads(message.body) for batch in self.batches for message in batch.messages]


class Failing:
    """A wrapper of a sink that is sometimes down, loses the confirmation of a batch, or refuses a message.

    down: share of the batches that are not delivered. lost: share that is delivered and then reported as failed.
    refused: share of the messages that are refused; the same messages each time, as with a real fault.
    """

    def __init__(self, sink: Sink, seed: int = 0, down: float = 0.0, lost: float = 0.0, refused: float = 0.0) -> None:
        self.sink = sink
        self.max_messages, self.max_bytes, self.lanes = sink.max_messages, sink.max_bytes, sink.lanes
        self.down, self.lost, self.refused = down, lost, refused
        self._seed = seed
        self._random = random.Random(seed)

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Deliver a batch, or fail."""
        if self._random.random() < self.down:
            raise SinkDown("down on purpose")
        bad = [message for message in batch.messages if self.is_refused(message)]
        self.sink.deliver(replace(batch, messages=tuple(m for m in batch.messages if m not in bad)))
        if self._random.random() < self.lost:
            raise SinkDown("delivered, then the confirmation lost on purpose")
        return [Refusal(message, "refused on purpose") for message in bad]

    def is_refused(self, message: Message) -> bool:
        """Whether a message is refused."""
        return random.Random(f"{self._seed} {message.id}").random() < self.refused


def without_repeats(bodies: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each message once, at its first place; assert that messages with one id are equal."""
    seen: dict[str, dict[str, Any]] = {}
    for body in bodies:
        assert seen.setdefault(body["id"], body) == body, "two messages with one id"
    return list(seen.values())


def by_subscription(bodies: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the messages of each subscription in order, as kind and object, tick or count."""
    received: dict[str, list[str]] = {}
    for body in bodies:
        name = body["object"]["object_id"] if "object" in body else body.get("tick") or str(body["count"])
        received.setdefault(body["subscription"]["subscription_id"], []).append(f"{body['kind']} {name}")
    return received
