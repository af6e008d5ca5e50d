"""Several requests at a time: a batch is dealt to lanes by subscription, so that each subscription keeps its order."""

import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pststream.delivery.contract import Batch, Message, Refusal, Sink, SinkDown


class Lanes:
    """A sink that gives parts of each batch to another one, all at once; a batch is done when all its parts are.

    The sink behind must bear being used by several threads. Where one part fails the batch does, and all parts come
    again, with equal ids.
    """

    def __init__(self, sink: Sink, lanes: int) -> None:
        self.most_messages = sink.most_messages * lanes
        self.most_bytes = sink.most_bytes
        self._sink = sink
        self._lanes = lanes
        self._pool = ThreadPoolExecutor(lanes, thread_name_prefix="lane")

    def deliver(self, batch: Batch) -> list[Refusal]:
        """Deliver a batch; raises SinkDown when all parts have ended and one has failed."""
        parts: list[list[Message]] = [[] for _ in range(self._lanes)]
        for message in batch.messages:
            parts[lane_of(message.subscription_id, self._lanes)].append(message)
        work = [self._pool.submit(self._deliver, f"{batch.id}-{lane}", part) for lane, part in enumerate(parts) if part]
        errors = [error for future in work if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, SinkDown)), errors[0])
        return [refusal for future in work for refusal in future.result()]

    def _deliver(self, batch_id: str, messages: Sequence[Message]) -> list[Refusal]:
        """Deliver the messages of a lane, in order."""
        size = self._sink.most_messages
        refusals: list[Refusal] = []
        for start in range(0, len(messages), size):
            refusals += self._sink.deliver(Batch(f"{batch_id}-{start}", tuple(messages[start : start + size])))
        return refusals


def lane_of(subscription_id: str, lanes: int) -> int:
    """The lane of a subscription, always the same one."""
    return zlib.crc32(subscription_id.encode("utf-8", "surrogatepass")) % lanes
