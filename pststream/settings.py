"""Settings of a home: `pststream.toml`, each key with an environment variable and a documented default.

Read once, at the door (`cli/`, `jobs/`), and passed down as a frozen value. Precedence: argument, environment
variable `PSTSTREAM_<KEY>`, file, default.
"""

import os
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pststream import names
from pststream.errors import SettingError
from pststream.sink_settings import SinkSettings, read_sinks, sink_keys
from pststream.storage.addresses import normal
from pststream.storage.small_files import files_at

FILE = "pststream.toml"

LONGEST_SECONDS = 300 * 366 * 86_400
"""300 years: times from 1900 on less so many are times still."""


def _key(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Settings:
    """Every key of `pststream.toml`."""

    planner: str = _key("kd_tree", "planner of new plans: " + ", ".join(names.PLANNERS))
    workers: int = _key(8, "logical partitions of the matching work; more than cores is fine")
    lateness_seconds: int = _key(86_400, "an object older than the log's greatest ts by more than this is late")
    timezone: str = _key("UTC", "zone of times that carry none (IANA name)")
    max_text_bytes: int = _key(1_048_576, "longer texts are rejected")
    sample_objects: int = _key(200_000, "objects that a planner sees at most")
    sample_subscriptions: int = _key(200_000, "subscriptions that a planner sees at most")
    cost_check: float = _key(2.6e-12, "c1 of Definition 1: seconds to check one object against one subscription")
    cost_object: float = _key(1.4e-6, "c2: seconds to handle one object")
    cost_insert: float = _key(1.5e-6, "c3: seconds to handle one insertion")
    cost_delete: float = _key(4e-7, "c4: seconds to handle one deletion")
    cost_posting: float = _key(6.7e-9, "seconds to read one posting of an object's cell and term")
    cost_match: float = _key(4.3e-8, "seconds to find and write down one match")
    sigma: float = _key(1.3, "greatest load of a worker over the least that counts as balanced; above 1")
    balance_batches: int = _key(8, "batches over which load is summed; out of balance in both halves, it is adjusted")
    repartition_gain: float = _key(0.1, "part of the greatest load that a new partitioning must save to be worth it")
    mapping: str = _key(
        "hungarian",
        "how new partitions are given to workers so that few subscriptions move: " + ", ".join(names.MAPPINGS),
    )
    retire_share: float = _key(0.1, "part of the subscriptions still under an older plan at which it is retired")
    max_objects: int = _key(2_000_000, "objects of one micro-batch at most")
    merge_files: int = _key(8, "match merges the small files of the index when a worker has more than this")
    retention_days: int = _key(7, "maintain keeps the files of versions of tables that are no older than this")
    gate_bad_share: float = _key(0.5, "a file is held if a greater part of its rows lacks or garbles a field; 1: never")
    gate_min_rows: int = _key(1000, "shares and volumes of fewer rows than this are not judged")
    gate_history: int = _key(20, "files of a kind that must have been taken in before new ones are compared with them")
    gate_volume_factor: float = _key(100.0, "a file is held if its rows are so many times the usual or less; 0: never")
    gate_ahead_seconds: int = _key(604_800, "a file is held if it is further ahead of the clock and the log; 0: never")
    gate_stale_seconds: int = _key(0, "a file is held if its greatest ts is older than this; 0: never")
    pending_seconds: int = _key(
        900, "a file of a bucket that waits for its manifest or upload longer than this is told of"
    )
    watch_seconds: float = _key(0.25, "run --watch looks into the landing folder this often")
    spark_master: str = _key("local[*]", "where Spark runs when a command starts it itself")
    spark_driver_memory: str = _key("2g", "heap of the driver")
    cache_dir: str = _key("", "node-local folder of derived index arrays; empty: ~/.cache/pststream")
    cache_bytes: int = _key(20_000_000_000, "bound on that folder")
    delivery_seconds: int = _key(20, "time that one run gives each sink; what is left waits for the next run")
    sinks: tuple[SinkSettings, ...] = ()


def load_settings(home: str | os.PathLike[str] | None, **arguments: Any) -> Settings:
    """Settings of `home` (None: no file), overridden by the environment, then by `arguments` that are not None.

    Raises SettingError naming the key and what is wrong with it.
    """
    values: dict[str, Any] = {}
    known = {f.name: f for f in setting_keys()}
    sinks: tuple[SinkSettings, ...] = ()
    for source, found in _sources(home, known, arguments):
        for name, value in found.items():
            if name == "sinks":
                sinks = read_sinks(value, os.environ)
                continue
            if name not in known:
                raise SettingError(name, f"unknown key in {source}", "known keys: " + ", ".join(known))
            values[name] = _typed(name, value, known[name].type, source)
    settings = Settings(**values, sinks=sinks)
    _check(settings)
    return settings


def setting_keys() -> list[Any]:
    """The keys of the file, as dataclass fields; those of sinks: `sink_keys`."""
    return [f for f in fields(Settings) if f.metadata]


def default_file() -> str:
    """The text of a new `pststream.toml`: every key, its meaning, its default."""
    lines = ["# Settings of this home. Each key can be overridden by the environment: PSTSTREAM_<KEY>.", ""]
    for f in setting_keys():
        lines += [f"# {f.metadata['meaning']}", f"{f.name} = {_written(f.default)}", ""]
    lines += ["# A sink that matches are delivered to; as many as you like, below all keys above.", "# [sinks.alerts]"]
    for f in sink_keys():
        if f.name != "secret":
            lines += [f"# # {f.metadata['meaning']}", f"# {f.name} = {_written(f.default)}"]
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def write_settings(home: str | os.PathLike[str], values: dict[str, float]) -> None:
    """Put these values into the file of a home, in place of those that stand there; all other lines stay."""
    files = files_at(normal(home))
    lines = files.read(FILE).decode("utf-8").splitlines() if files.exists(FILE) else []
    left = dict(values)
    tables = next((place for place, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    for place, line in enumerate(lines[:tables]):
        name = line.split("=", 1)[0].strip()
        if name in left and not line.lstrip().startswith("#"):
            lines[place] = f"{name} = {left.pop(name)}"
    lines[tables:tables] = [f"{name} = {value}" for name, value in left.items()]
    files.write(FILE, ("\n".join(lines) + "\n").encode())


def _sources(home: Any, known: dict[str, Any], arguments: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    sources: list[tuple[str, dict[str, Any]]] = []
    with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        text = b"" if home is None else files_at(normal(home)).read(FILE)
        try:
            sources.append((f"{home}/{FILE}", tomllib.loads(text.decode("utf-8"))))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SettingError(
                FILE, f"not readable as TOML: {error}", "mend the file, or delete it and run init"
            ) from None
    environment = {
        name: os.environ[f"PSTSTREAM_{name.upper()}"] for name in known if f"PSTSTREAM_{name.upper()}" in os.environ
    }
    sources.append(("the environment", environment))
    sources.append(("the arguments", {name: value for name, value in arguments.items() if value is not None}))
    return sources


def _typed(name: str, value: Any, kind: Any, source: str) -> Any:
    kind = {"int": int, "float": float, "str": str}.get(kind, kind)
    if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
        raise SettingError(name, f"{value!r} in {source} is not {_a(kind)}")
    if isinstance(value, float) and kind is int:
        raise SettingError(name, f"{value!r} in {source} is not {_a(kind)}")
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise SettingError(name, f"{value!r} in {source} is not {_a(kind)}") from None


def _a(kind: type) -> str:
    return {int: "a whole number", float: "a number", str: "a text"}[kind]


def _check(settings: Settings) -> None:
    if settings.planner not in names.PLANNERS:
        raise SettingError("planner", f"{settings.planner!r} is unknown", "one of: " + ", ".join(names.PLANNERS))
    if settings.mapping not in names.MAPPINGS:
        raise SettingError("mapping", f"{settings.mapping!r} is unknown", "one of: " + ", ".join(names.MAPPINGS))
    for name in (
        "workers",
        "max_text_bytes",
        "sample_objects",
        "sample_subscriptions",
        "max_objects",
        "merge_files",
        "balance_batches",
        "cache_bytes",
        "gate_min_rows",
        "gate_history",
        "delivery_seconds",
        "retention_days",
    ):
        if getattr(settings, name) < 1:
            raise SettingError(name, f"{getattr(settings, name)} is less than 1")
    if not 1 < settings.sigma < 1e6:
        raise SettingError("sigma", f"{settings.sigma} is not above 1")
    if not 0 <= settings.repartition_gain < 1:
        raise SettingError("repartition_gain", f"{settings.repartition_gain} is not between 0 and 1")
    if not 0 <= settings.retire_share <= 1:
        raise SettingError("retire_share", f"{settings.retire_share} is not between 0 and 1")
    if not 0 <= settings.gate_bad_share <= 1:
        raise SettingError("gate_bad_share", f"{settings.gate_bad_share} is not between 0 and 1")
    if settings.gate_volume_factor and not 1 < settings.gate_volume_factor < 1e12:
        raise SettingError("gate_volume_factor", f"{settings.gate_volume_factor} is neither 0 nor above 1")
    if settings.retention_days > LONGEST_SECONDS // 86_400:
        raise SettingError("retention_days", f"{settings.retention_days} is more than 300 years")
    if settings.workers > 10_000:
        raise SettingError("workers", f"{settings.workers} is more than 10,000")
    if not 0.05 <= settings.watch_seconds <= 3600:
        raise SettingError("watch_seconds", f"{settings.watch_seconds} is not between 0.05 and 3600")
    for name in (
        "lateness_seconds",
        "cost_check",
        "cost_object",
        "cost_insert",
        "cost_delete",
        "cost_posting",
        "cost_match",
        "gate_ahead_seconds",
        "gate_stale_seconds",
        "pending_seconds",
    ):
        if not 0 <= getattr(settings, name) <= LONGEST_SECONDS:
            raise SettingError(name, f"{getattr(settings, name)} is out of range")
    if settings.cost_match > 1000 * settings.cost_posting > 0:
        # The sample counts a match as so many postings.
        raise SettingError("cost_match", f"{settings.cost_match} is more than 1000 times cost_posting")
    check_zone(settings.timezone)


def check_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name; raises SettingError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingError("timezone", f"{name!r} is not a known zone", "an IANA name, such as Europe/Paris") from None
