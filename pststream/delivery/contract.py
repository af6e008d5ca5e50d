"""The contract of sinks.

A sink takes batches of messages, one after the other. It is idempotent as far as its transport goes: what comes again
has the same ids, so a file is written over, a FIFO queue drops the repeats, and a webhook's receiver can.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """What one subscription is told: a deterministic id, the group that is kept in order, JSON in ASCII."""

    id: str
    kind: str
    subscription_id: str
    body: bytes


@dataclass(frozen=True)
class Batch:
    """Messages that are delivered together; `id` is the same whenever they are delivered again.

    heard: the sink calls it with each answer it gets, so that one that is slow is told from one that is dead.
    """

    id: str
    messages: tuple[Message, ...]
    heard: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)


@dataclass(frozen=True)
class Refusal:
    """A message that the sink will never take, and why."""

    message: Message
    reason: str


class SinkDown(Exception):
    """The sink did not take a batch, or did not say so; the same batch may do later. The text holds no secret.

    wait_seconds: how long the sink asked to be left alone.
    lasting: trying again at once would end the same way (a wrong key, a missing queue).
    """

    def __init__(self, reason: str, *, wait_seconds: float = 0.0, lasting: bool = False) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds
        self.lasting = lasting


class Sink(Protocol):
    """Where messages go.

    A batch has at most `most_messages` for each of the sink's `lanes` (`lane_of` its subscription), and at most
    `most_bytes` in all; one larger message may come alone.
    """

    most_messages: int
    most_bytes: int
    lanes: int

    def deliver(self, batch: Batch) -> list[Refusal]:
        """Deliver a batch, its messages in order; the messages that were refused for good. Raises SinkDown."""


def lane_of(subscription_id: str, lanes: int) -> int:
    """The lane of a subscription, always the same one."""
    return zlib.crc32(subscription_id.encode("utf-8", "surrogatepass")) % lanes
