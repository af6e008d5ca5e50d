"""The kinds of sinks, and how one is opened."""

from collections.abc import Callable

from pststream.delivery.contract import Sink
from pststream.delivery.file_sink import FileSink
from pststream.delivery.lanes import Lanes
from pststream.delivery.sqs_sns import Queue, Topic
from pststream.delivery.webhook import Webhook
from pststream.errors import SettingError
from pststream.sink_settings import PREFIX, SinkSettings

SINKS: dict[str, Callable[[SinkSettings], Sink]] = {
    "file": FileSink,
    "webhook": Webhook,
    "sqs": Queue,
    "sns": Topic,
}


def open_sink(settings: SinkSettings) -> Sink:
    """The sink of these settings; nothing is reached yet. Raises SettingError where its target is missing."""
    if not settings.target:
        name = f"{PREFIX}{settings.name.upper()}_TARGET"
        raise SettingError(f"sinks.{settings.name}.target", "is missing", f"set it in pststream.toml, or set {name}")
    sink = SINKS[settings.kind](settings)
    return Lanes(sink, settings.lanes) if settings.lanes > 1 else sink
