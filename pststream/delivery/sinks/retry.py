"""Deliver one batch to a sink with retries, until it is accepted or the tries or the time run out.

Waits grow by exponential back-off with full jitter, so that senders do not retry in step.

Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015 ("Full Jitter").
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pststream.delivery.sinks.contract import MessageBatch, Refusal, Sink, SinkDown

FIRST_WAIT = 0.2
LONGEST_WAIT = 10.0
"""Seconds."""


@dataclass
class RetryPolicy:
    """How often a batch is tried, and until when.

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
