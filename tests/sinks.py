"""Sinks for tests: one that remembers, and one that fails on purpose with set probabilities, seeded."""

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pststream.sinks.contract import Message, MessageBatch, Refusal, Sink, SinkDown


class Memory:
    """Takes everything, and remembers it in its order."""

    def __init__(self, max_messages: int = 3) -> None:
        self.max_messages = max_messages
        self.max_bytes = 1_000_000
        self.lanes = 1
        self.batches: list[MessageBatch] = []

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Take a batch."""
        self.batches.append(batch)
        return []

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Every message that was taken, repeats too."""
        return [json.loads(message.body) for batch in self.batches for message in batch.messages]


class Failing:
    """A sink before another one that is at times down, takes a batch without saying so, or refuses a message.

    down: of the batches, part that is not taken. lost: part that is taken, and then reported as not taken.
    refused: of the messages, part that is refused; which ones is a matter of the message, as with a real fault.
    """

    def __init__(self, sink: Sink, seed: int = 0, down: float = 0.0, lost: float = 0.0, refused: float = 0.0) -> None:
        self.sink = sink
        self.max_messages, self.max_bytes, self.lanes = sink.max_messages, sink.max_bytes, sink.lanes
        self.down, self.lost, self.refused = down, lost, refused
        self._seed = seed
        self._random = random.Random(seed)

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Take a batch, or not."""
        if self._random.random() < self.down:
            raise SinkDown("down on purpose")
        bad = [message for message in batch.messages if self.is_refused(message)]
        self.sink.deliver(replace(batch, messages=tuple(m for m in batch.messages if m not in bad)))
        if self._random.random() < self.lost:
            raise SinkDown("taken, and not said so, on purpose")
        return [Refusal(message, "refused on purpose") for message in bad]

    def is_refused(self, message: Message) -> bool:
        """Whether a message is one that is refused."""
        return random.Random(f"{self._seed} {message.id}").random() < self.refused


def first_told(bodies: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each message once, where it came first; messages with one id have to be equal."""
    seen: dict[str, dict[str, Any]] = {}
    for body in bodies:
        assert seen.setdefault(body["id"], body) == body, "two messages with one id"
    return list(seen.values())


def by_subscription(bodies: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """What each subscription was told, in order: kind and object."""
    told: dict[str, list[str]] = {}
    for body in bodies:
        name = body["object"]["object_id"] if "object" in body else str(body["count"])
        told.setdefault(body["subscription"]["subscription_id"], []).append(f"{body['kind']} {name}")
    return told
