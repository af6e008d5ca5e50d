"""Settings of sinks: a table `[sinks.<name>]` of `pststream.toml` each, every key with an environment variable.

`PSTSTREAM_SINK_<NAME>_<KEY>` wins over the file. Secrets come from the environment alone, and neither they nor the
target, which may hold a token, are part of a sink's `repr`. A target may be missing where nothing is delivered.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from pststream.errors import SettingError

KINDS = ("file", "webhook", "sqs", "sns")
MOST_LANES = 64
PREFIX = "PSTSTREAM_SINK_"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def _key(meaning: str, default: Any = "", **more: Any) -> Any:
    return field(default=default, metadata={"meaning": meaning}, **more)


@dataclass(frozen=True)
class SinkSettings:
    """Where messages go, and how."""

    name: str
    kind: str = _key("file, webhook, sqs or sns")
    target: str = _key("file: a folder; webhook: a URL; sqs: URL of the queue; sns: ARN of the topic", repr=False)
    secret: str = _key("webhook: key of the signatures; in the environment only", repr=False)
    networks: str = _key("webhook: addresses that are not public and yet allowed, as 10.1.0.0/16, parted by blanks")
    timeout_seconds: float = _key("of one request", 10.0)
    tries: int = _key("of one request in a run, with growing waits between", 5)
    messages: int = _key("of one request or file at most; 0: 100 for a webhook, 10,000 for a file", 0)
    lanes: int = _key("webhook, sqs, sns: requests at a time; a subscription's messages keep to one lane", 1)
    limit: int = _key("messages to one subscription in `limit_seconds`; the others become one digest; 0: no limit", 0)
    limit_seconds: int = _key("see limit", 60)
    from_batch: int = _key("a new sink is told of batches from this one on", 1)


def read_sinks(tables: Any, environment: Mapping[str, str]) -> tuple[SinkSettings, ...]:
    """The sinks of a settings file, by name. Raises SettingError naming the sink, the key, what is wrong with it."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise SettingError("sinks", "is not made of tables", "write [sinks.<name>] and its keys below")
    sinks = tuple(_read(name, tables[name], environment) for name in sorted(tables))
    folders: dict[str, str] = {}
    for sink in sinks:
        if sink.kind == "file" and sink.target:
            first = folders.setdefault(os.path.realpath(sink.target), sink.name)
            if first != sink.name:
                hint = "give each a folder of its own: their files have the same names"
                raise SettingError(f"sinks.{sink.name}.target", f"is the folder of sink {first} too", hint)
    return sinks


def sink_keys() -> list[Any]:
    """The keys of a sink, as dataclass fields."""
    return [f for f in fields(SinkSettings) if f.metadata]


def _read(name: str, table: dict[str, Any], environment: Mapping[str, str]) -> SinkSettings:
    if not _NAME.fullmatch(name):
        raise SettingError(f"sinks.{name}", "is not a name", "use small letters, digits and _, 40 at most")
    known = {f.name: f for f in sink_keys()}
    if "secret" in table:
        hint = f"take it out of the file, and set {PREFIX}{name.upper()}_SECRET"
        raise SettingError(f"sinks.{name}.secret", "a secret does not belong into a file", hint)
    for key in table:
        if key not in known:
            raise SettingError(f"sinks.{name}.{key}", "unknown key", "known keys: " + ", ".join(known))
    given = {key: environment.get(f"{PREFIX}{name.upper()}_{key.upper()}", table.get(key)) for key in known}
    values = {key: _typed(f"sinks.{name}.{key}", v, known[key].type) for key, v in given.items() if v is not None}
    sink = SinkSettings(name, **values)
    _check(sink, from_file="target" in table and sink.target == table["target"])
    return sink


def _typed(name: str, value: Any, kind: type) -> Any:
    wrong = isinstance(value, bool) or (kind is str and not isinstance(value, str))
    if wrong or (kind is int and isinstance(value, float)):
        raise SettingError(name, f"is not of type {kind.__name__}")
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise SettingError(name, f"is not of type {kind.__name__}") from None


def _check(sink: SinkSettings, from_file: bool) -> None:
    at = f"sinks.{sink.name}"
    if sink.kind not in KINDS:
        raise SettingError(f"{at}.kind", f"{sink.kind!r} is unknown", "one of: " + ", ".join(KINDS))
    if sink.kind == "webhook" and sink.target:
        _check_webhook(sink, at, from_file)
    for key, least in (
        ("tries", 1),
        ("messages", 0),
        ("lanes", 1),
        ("limit", 0),
        ("limit_seconds", 1),
        ("from_batch", 1),
    ):
        if getattr(sink, key) < least:
            raise SettingError(f"{at}.{key}", f"{getattr(sink, key)} is less than {least}")
    if sink.lanes > (1 if sink.kind == "file" else MOST_LANES):
        raise SettingError(f"{at}.lanes", f"{sink.lanes} is more than a sink of kind {sink.kind} can have")
    if not 0 < sink.timeout_seconds <= 300:
        raise SettingError(f"{at}.timeout_seconds", f"{sink.timeout_seconds} is not above 0 and at most 300")


def _check_webhook(sink: SinkSettings, at: str, from_file: bool) -> None:
    try:
        url = urlsplit(sink.target)
        whole = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise SettingError(f"{at}.target", "is not a URL", "give https://host/path")
    if url.password is not None or url.username is not None:
        hint = "a token in the path or query is passed on; set the target in the environment then"
        raise SettingError(f"{at}.target", "names a user or a password, which webhooks do not take", hint)
    if from_file and url.query:
        hint = f"a query may hold a token: set {PREFIX}{sink.name.upper()}_TARGET instead"
        raise SettingError(f"{at}.target", "has a query, and stands in a file", hint)
    for text in sink.networks.split():
        try:
            ip_network(text)
        except ValueError:
            raise SettingError(f"{at}.networks", f"{text!r} is not a network", "write it as 10.1.0.0/16") from None
