"""Tries with growing waits: exponential back-off with full jitter, so that senders do not come back all at once.

Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015 ("Full Jitter").
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pststream.delivery.contract import Batch, Refusal, Sink, SinkDown

FIRST_WAIT = 0.2
LONGEST_WAIT = 10.0


@dataclass
class Patience:
    """How often a batch is tried, and until when.

    deadline: as `time.monotonic` tells; no try begins, and no wait ends, after it.
    failures: tries that failed, of all batches.
    """

    tries: int
    deadline: float
    draw: Callable[[float, float], float] = field(default_factory=lambda: random.Random().uniform)
    sleep: Callable[[float], None] = time.sleep
    failures: int = 0

    def deliver(self, sink: Sink, batch: Batch) -> list[Refusal]:
        """Deliver a batch; what was refused. Raises the SinkDown of the last try."""
        for failed in range(self.tries):
            try:
                return sink.deliver(batch)
            except SinkDown as error:
                self.failures += 1
                wait = max(self.draw(0.0, min(LONGEST_WAIT, FIRST_WAIT * 2**failed)), error.wait_seconds)
                last = failed + 1 == self.tries or error.lasting
                if last or time.monotonic() + wait > self.deadline:
                    raise
                self.sleep(wait)
        raise AssertionError("no tries")
