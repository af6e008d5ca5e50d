"""List the kinds of sinks; read their settings; open a sink, or find without sending what prevents its delivery.

A new kind is one module with its SinkKind, and one line of SINK_KINDS. Settings are those of `[sinks.<name>]` in
`pststream.toml`; `PSTSTREAM_SINK_<NAME>_<KEY>` wins over the file. Secrets come from the environment only.
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from pststream.base import names
from pststream.base.errors import SettingError
from pststream.base.setting_key import SettingKey, declared_keys
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


SINK_KINDS: dict[str, SinkKind] = {"file": file.KIND, "webhook": webhook.KIND, "sqs": aws.SQS, "sns": aws.SNS}


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


_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def read_sinks(tables: Any, environment: Mapping[str, str]) -> tuple[SinkSettings, ...]:
    """Read the sinks of a settings file, ordered by name. Raises SettingError with the sink, the key and the reason."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise SettingError("sinks", "is not made of tables", "write [sinks.<name>] and its keys below")
    sinks = tuple(_read_sink(name, tables[name], environment) for name in sorted(tables))
    _check_shared_targets(sinks)
    return sinks


def sink_keys() -> list[SettingKey]:
    """Return the keys of a sink; the meanings of `kind` and `target` list the registered kinds."""
    meanings = {
        "kind": ", ".join(SINK_KINDS),
        "target": "; ".join(f"{name}: {kind.target}" for name, kind in SINK_KINDS.items()),
    }
    return [replace(key, meaning=meanings.get(key.name, key.meaning)) for key in declared_keys(SinkSettings)]


def _read_sink(name: str, table: dict[str, Any], environment: Mapping[str, str]) -> SinkSettings:
    """Read and check one sink. No error quotes a value, which may be a secret, except a number."""
    if not _NAME.fullmatch(name):
        raise SettingError(f"sinks.{name}", "is not a name", "use small letters, digits and _, 40 at most")
    known = {key.name: key for key in sink_keys()}
    if "secret" in table:
        hint = f"remove it from the file, and set {names.SINK_VARIABLES}{name.upper()}_SECRET"
        raise SettingError(f"sinks.{name}.secret", "a secret must not be in a file", hint)
    for key in table:
        if key not in known:
            raise SettingError(f"sinks.{name}.{key}", "unknown key", "known keys: " + ", ".join(known))
    given = {
        key: environment.get(f"{names.SINK_VARIABLES}{name.upper()}_{key.upper()}", table.get(key)) for key in known
    }
    values = {key: known[key].convert(v, f"sinks.{name}.{key}", "") for key, v in given.items() if v is not None}
    sink = SinkSettings(name, **values)
    kind = kind_of(sink)
    for key, declared in known.items():
        declared.check_value(getattr(sink, key), f"sinks.{name}.{key}")
    if sink.lanes > kind.max_lanes:
        raise SettingError(f"sinks.{name}.lanes", f"{sink.lanes} is more than {kind.max_lanes}, as {kind.name} allows")
    if sink.target:
        kind.check_settings(sink, "target" in table and sink.target == table["target"])
    return sink


def _check_shared_targets(sinks: tuple[SinkSettings, ...]) -> None:
    """Refuse two sinks with one target where their kind does not allow that."""
    first: dict[tuple[str, str], str] = {}
    for sink in sinks:
        normal = SINK_KINDS[sink.kind].normal_target
        if normal is None or not sink.target:
            continue
        other = first.setdefault((sink.kind, normal(sink.target)), sink.name)
        if other != sink.name:
            raise SettingError(
                f"sinks.{sink.name}.target", f"is also the target of sink {other}", "give each sink a target of its own"
            )
