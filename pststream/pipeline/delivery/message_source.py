"""Define where the outbox takes the messages of a batch from: one source for matches, one for changes of answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pststream.delivery.change_messages import ChangeBatch
from pststream.delivery.rate_limit import MessageLimiter
from pststream.delivery.sinks.contract import Message


@dataclass(frozen=True)
class MessageBlock:
    """`count` messages; `make(skip)` builds and yields them without the first `skip`, which costs no look-up."""

    count: int
    make: Callable[[int], Iterator[Message]]


class MessageSource(Protocol):
    """Messages of the batches, as far as one table gives them."""

    def blocks(self, batch: ChangeBatch, limiter: MessageLimiter | None) -> Iterator[MessageBlock]:
        """Yield the messages of a batch in blocks; the limiter has counted the earlier batches that its limit spans."""

    def limited_keys(self, batch_id: int) -> Iterator[np.ndarray]:
        """Yield the subscription keys int64[n] of the messages of a batch that count against a limit, in any order."""


@dataclass(frozen=True)
class CountedSource:
    """A source, and for each batch of the outbox whether the source has messages of it: bool[n]."""

    source: MessageSource
    has_messages: np.ndarray
