"""Several requests at a time: a batch is dealt to lanes by subscription, so that each subscription keeps its order."""

from concurrent.futures import ThreadPoolExecutor

from pststream.delivery.contract import Batch, Message, Refusal, Sink, SinkDown, lane_of


class Lanes:
    """A sink that gives parts of each batch to another one, all at once; a batch is done when all its parts are.

    The sink behind must bear being used by several threads. Where one part fails the batch does, and all parts come
    again, with equal ids.
    """

    def __init__(self, sink: Sink, lanes: int) -> None:
        self.most_messages = sink.most_messages
        self.most_bytes = sink.most_bytes
        self._sink = sink
        self.lanes = lanes
        self._pool = ThreadPoolExecutor(lanes, thread_name_prefix="lane")

    def deliver(self, batch: Batch) -> list[Refusal]:
        """Deliver a batch; raises SinkDown when all parts have ended and one has failed."""
        parts: list[list[Message]] = [[] for _ in range(self.lanes)]
        for message in batch.messages:
            parts[lane_of(message.subscription_id, self.lanes)].append(message)
        work = [
            self._pool.submit(self._sink.deliver, Batch(f"{batch.id}-{lane}", tuple(part), batch.heard))
            for lane, part in enumerate(parts)
            if part
        ]
        errors = [error for future in work if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, SinkDown)), errors[0])
        return [refusal for future in work for refusal in future.result()]
