"""List the kinds of sinks; open a sink of one kind, or find without sending what prevents its delivery.

A new kind is one module with its SinkKind, and one line of SINK_KINDS.
"""

from pststream.base import names
from pststream.base.errors import SettingError
from pststream.delivery.sinks import file, sns, sqs, webhook
from pststream.delivery.sinks.contract import Sink, SinkKind
from pststream.delivery.sinks.lanes import LaneSink
from pststream.delivery.sinks.settings import SinkSettings

SINK_KINDS: dict[str, SinkKind] = {
    "file": file.KIND,
    "webhook": webhook.KIND,
    "sqs": sqs.KIND,
    "sns": sns.KIND,
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
