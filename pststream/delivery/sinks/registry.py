"""List the kinds of sinks; open a sink of one kind, or find without sending what prevents its delivery.

A new kind is one module with its SinkKind, and one line of SINK_KINDS.
"""

from concurrent.futures import ThreadPoolExecutor

from pststream.base import names
from pststream.base.errors import SettingError
from pststream.delivery.sinks import aws, file, webhook
from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, Sink, SinkDown, SinkKind, lane_of
from pststream.delivery.sinks.settings import SinkSettings


class LaneSink:
    """A sink that sends the lanes of each batch to another sink concurrently; a batch is done when all lanes are.

    The lane depends on the subscription, so each subscription keeps its order. The other sink must be safe for use by
    several threads. Where one lane fails the batch fails, and all lanes are sent again, with equal ids.
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


SINK_KINDS: dict[str, SinkKind] = {
    "file": file.KIND,
    "webhook": webhook.KIND,
    "sqs": aws.SQS,
    "sns": aws.SNS,
}


def kind_of(settings: SinkSettings) -> SinkKind:
    """Return the kind of a sink. Raises SettingError where it is unknown."""
    if settings.kind not in SINK_KINDS:
        name = f"sinks.{settings.name}.kind"
        raise SettingError(name, f"{settings.kind!r} is unknown", "one of: " + ", ".join(SINK_KINDS))
    return SINK_KINDS[settings.kind]


def open_sink(settings: SinkSettings) -> Sink:
    """Open the sink of these settings; connects to nothing yet. Raises SettingError where its target is missing."""
    kind = kind_of(settings)
    if not settings.target:
        name = f"{names.SINK_VARIABLES}{settings.name.upper()}_TARGET"
        raise SettingError(f"sinks.{settings.name}.target", "is missing", f"set it in pststream.toml, or set {name}")
    sink = kind.open(settings)
    return LaneSink(sink, settings.lanes) if settings.lanes > 1 else sink


def find_delivery_obstacle(settings: SinkSettings) -> str:
    """Return without sending what prevents delivery, as far as that is visible, or ""; the text has no secret."""
    kind = kind_of(settings)
    if not settings.target:
        return f"it has no target: set {names.SINK_VARIABLES}{settings.name.upper()}_TARGET"
    return kind.find_delivery_obstacle(settings)
