"""The kinds of sinks."""

from collections.abc import Callable

from pststream.delivery.aws import Queue, Topic
from pststream.delivery.contract import Sink
from pststream.delivery.file import FileSink
from pststream.delivery.webhook import Webhook
from pststream.sink_settings import SinkSettings

SINKS: dict[str, Callable[[SinkSettings], Sink]] = {
    "file": FileSink,
    "webhook": Webhook,
    "sqs": Queue,
    "sns": Topic,
}
