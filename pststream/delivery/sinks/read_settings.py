"""Read and check the settings of all sinks, from `[sinks.<name>]` of `pststream.toml` and the environment.

`PSTSTREAM_SINK_<NAME>_<KEY>` wins over the file. Secrets come from the environment only.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pststream.base import names
from pststream.base.errors import SettingError
from pststream.base.setting_key import SettingKey, declared_keys
from pststream.delivery.sinks.registry import SINK_KINDS, kind_of
from pststream.delivery.sinks.settings import SinkSettings

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
