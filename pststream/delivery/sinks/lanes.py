"""Send the messages of a batch in parallel lanes chosen by subscription, so that each subscription keeps its order."""

from concurrent.futures import ThreadPoolExecutor

from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, Sink, SinkDown, lane_of


class LaneSink:
    """A sink that sends the lanes of each batch to another sink concurrently; a batch is done when all lanes are.

    The other sink must be safe for use by several threads. Where one lane fails the batch fails, and all lanes are
    sent again, with equal ids.
    """

    def __init__(self, sink: Sink, lanes: int) -> None:
        self.max_messages = sink.max_messages
        self.max_bytes = sink.max_bytes
        self._sink = sink
        self.lanes = lanes
        self._pool = ThreadPoolExecutor(lanes, thread_name_prefix="lane")

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Deliver a batch; raises SinkDown when all lanes have ended and one has failed."""
        by_lane: list[list[Message]] = [[] for _ in range(self.lanes)]
        for message in batch.messages:
            by_lane[lane_of(message.subscription_id, self.lanes)].append(message)
        futures = [
            self._pool.submit(
                self._sink.deliver, MessageBatch(f"{batch.id}-{lane}", tuple(messages), batch.on_response)
            )
            for lane, messages in enumerate(by_lane)
            if messages
        ]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, SinkDown)), errors[0])
        return [refusal for future in futures for refusal in future.result()]
