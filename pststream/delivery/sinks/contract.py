"""Define the interface of a sink, the messages that it receives, and what each kind of sink must provide.

A sink receives batches of messages, one after the other. It is idempotent as far as its transport allows: a repeated
message has the same id, so a file is overwritten, a FIFO queue drops the repeat, and the receiver of a webhook can drop
it.
"""

import random
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pststream.delivery.sinks.settings import MAX_LANES, SinkSettings


@dataclass(frozen=True, slots=True)
class Message:
    """A message to one subscription, with a deterministic id and a body of JSON in ASCII."""

    id: str
    kind: str
    subscription_id: str
    body: bytes
    owner: str = ""


@dataclass(frozen=True)
class MessageBatch:
    """Messages that are delivered together; a repeated batch has the same `id`.

    on_response: the sink calls it after each response, which distinguishes a slow sink from a dead one.
    """

    id: str
    messages: tuple[Message, ...]
    on_response: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)


@dataclass(frozen=True)
class Refusal:
    """A message that the sink will never accept, with the reason."""

    message: Message
    reason: str


class SinkDown(Exception):
    """The sink did not accept a batch, or did not confirm it; a later try may succeed. The text contains no secret.

    wait_seconds: how long the sink asked to be left alone.
    permanent: an immediate retry would fail in the same way (a wrong key, a missing queue).
    """

    def __init__(self, reason: str, *, wait_seconds: float = 0.0, permanent: bool = False) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds
        self.permanent = permanent


class Sink(Protocol):
    """Where messages are delivered to.

    A batch has at most `max_messages` per lane; `lane_of` gives the lane of a message's subscription. It has at most
    `max_bytes` in all; a larger message becomes a dead letter.
    """

    max_messages: int
    max_bytes: int
    lanes: int

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Deliver a batch, its messages in order; return the permanently refused messages. Raises SinkDown."""


@dataclass(frozen=True)
class SinkKind:
    """A kind of sink, which `kind = "<name>"` in the settings of a sink selects.

    target                  what the target of such a sink is, for the settings page
    open                    makes the sink; connects to nothing yet
    find_delivery_obstacle  returns without sending what prevents delivery, or ""; the text has no secret
    check_settings          checks the settings, and whether the target may stand in the settings file (`in_file`: it
                            does); raises SettingError
    max_lanes               greatest allowed value of `lanes`
    normal_target           normal form of a target; no two sinks may have the same one; None: sinks may share targets
    """

    name: str
    target: str
    open: Callable[[SinkSettings], Sink]
    find_delivery_obstacle: Callable[[SinkSettings], str]
    check_settings: Callable[[SinkSettings, bool], None] = lambda settings, in_file: None
    max_lanes: int = MAX_LANES
    normal_target: Callable[[str], str] | None = None


def lane_of(subscription_id: str, lanes: int) -> int:
    """Return the lane of a subscription, always the same one."""
    return zlib.crc32(subscription_id.encode("utf-8", "surrogatepass")) % lanes


FIRST_WAIT = 0.2
LONGEST_WAIT = 10.0
"""Seconds."""


@dataclass
class RetryPolicy:
    """How often a batch is tried, and until when. Waits grow, with full jitter, so that senders do not retry in step.

    Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015 ("Full Jitter").

    deadline: in the clock of `time.monotonic`; no try begins, and no wait ends, after it.
    failures: failed tries of all batches.
    """

    tries: int
    deadline: float
    draw: Callable[[float, float], float] = field(default_factory=lambda: random.Random().uniform)
    sleep: Callable[[float], None] = time.sleep
    failures: int = 0

    def deliver(self, sink: Sink, batch: MessageBatch) -> list[Refusal]:
        """Deliver a batch; return the refused messages. Raises the SinkDown of the last try."""
        for failed in range(self.tries):
            try:
                return sink.deliver(batch)
            except SinkDown as error:
                self.failures += 1
                wait = max(self.draw(0.0, min(LONGEST_WAIT, FIRST_WAIT * 2**failed)), error.wait_seconds)
                last = failed + 1 == self.tries or error.permanent
                if last or time.monotonic() + wait > self.deadline:
                    raise
                self.sleep(wait)
        raise AssertionError("no tries")
