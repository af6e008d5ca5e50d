"""Declare all settings of a home, and load them from `pststream.toml`, the environment and arguments, checked.

Commands and jobs load them once, into a frozen Settings, and pass it down. Precedence: argument, environment variable
`PSTSTREAM_<KEY>`, file, default.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pststream.base import names
from pststream.base.errors import SettingError, UsageError
from pststream.base.setting_key import SettingKey, declare, declared_keys
from pststream.delivery.sinks.registry import read_sinks, sink_keys
from pststream.delivery.sinks.settings import SinkSettings
from pststream.storage.registry import files_at, normalize

_NAME = re.compile("[a-z][a-z_]*", re.ASCII)


def read_planner_options(text: str) -> dict[str, object]:
    """Return the options of a planner by name, of a text such as `delta=0.3,objective=sum`; the planner checks them.

    Raises SettingError for a part that is not NAME=VALUE, and for a name that is given twice.
    """
    options: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (side.strip() for side in part.partition("="))
        if not _NAME.fullmatch(name) or not value:
            raise SettingError("planner_options", f"{part!r} is not NAME=VALUE", "for example delta=0.3,objective=sum")
        if name in options:
            raise SettingError("planner_options", f"{name!r} is given twice")
        options[name] = _value(value)
    return options


def _value(text: str) -> object:
    """Return a whole number, another number, or the text itself."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def check_planners(planners: Sequence[str], kinds: str) -> None:
    """Raise UsageError if one of some planners does not serve the kinds."""
    known = names.PLANNERS_OF[kinds]
    unknown = [name for name in planners if name not in known]
    if unknown:
        raise UsageError(f"planner {unknown[0]!r} does not serve {kinds}", "choose from: " + ", ".join(known))


FILE = "pststream.toml"

LONGEST_SECONDS = 300 * 366 * 86_400
"""300 years: any time from 1900 on minus this many seconds is still a valid time."""

_SECONDS: dict[str, Any] = {"least": 0, "greatest": LONGEST_SECONDS}


def check_zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name. Raises SettingError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingError("timezone", f"{name!r} is not a known zone", "an IANA name, such as Europe/Paris") from None


def _check_volume_factor(factor: float) -> None:
    if factor and not 1 < factor < 1e12:
        raise SettingError("gate_volume_factor", f"{factor} is neither 0 nor above 1")


def read_keep(text: str) -> dict[str, int]:
    """Return the days that rows of tables are kept, by table, from a text such as `objects=400d,matches=90d`.

    Raises SettingError.
    """
    days: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        table, _, age = part.partition("=")
        if not re.fullmatch("[1-9][0-9]{0,4}d", age, re.ASCII):
            raise SettingError("keep", f"{part!r} is not TABLE=DAYSd", "for example objects=400d,matches=400d")
        if table not in names.KEEPABLE or table in days:
            reason = "is given twice" if table in days else "is not a table whose rows have an age"
            raise SettingError("keep", f"{table!r} {reason}", "tables: " + ", ".join(names.KEEPABLE))
        days[table] = int(age[:-1])
    if days.get(names.OBJECTS, names.MAX_INT64) < days.get(names.MATCHES, names.MAX_INT64):
        hint = f"add {names.MATCHES}={days[names.OBJECTS]}d, or fewer days"
        raise SettingError("keep", "matches would outlive their objects", hint)
    return days


def _check_keep(settings: "Settings") -> None:
    """Raise SettingError if rows would go while objects that are still accepted depend on them."""
    for table, days in read_keep(settings.keep).items():
        if table in (names.OBJECTS, names.MATCHES) and days * 86_400 < settings.lateness_seconds:
            reason = f"{table}={days}d is less than lateness_seconds ({settings.lateness_seconds:,})"
            hint = "objects within the lateness decide about duplicates: keep them longer, or lower lateness_seconds"
            raise SettingError("keep", reason, hint)


@dataclass(frozen=True)
class SourceSettings:
    """A source of objects, `[sources.<name>]`: which landed files are of it, and how they are read.

    files      a folder below `objects/` of the landing folder, or a pattern of paths below it (fnmatch: `*` also stands
               for `/`)
    columns, constants, timezone, time_unit   as the options of `pststream ingest`; an empty zone: that of the settings
    attributes  whether columns that are no field are kept, or the names of those that are
    types       type of columns that are kept: text, number, boolean or time
    """

    name: str
    files: str
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    timezone: str = ""
    time_unit: str | None = None
    attributes: bool | tuple[str, ...] = True
    types: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Settings:
    """Every key of `pststream.toml`."""

    planner: str = declare(
        names.AUTO, "planner of new plans of range and knn: " + ", ".join(names.PLANNERS), choices=names.PLANNERS
    )
    planner_options: str = declare(
        "",
        "options of the planner, such as delta=0.3,objective=sum (docs/planning.md); empty: its defaults",
        check=lambda text: read_planner_options(text),
    )
    workers: int = declare(
        8, "logical partitions of the matching work; may exceed the number of cores", least=1, greatest=10_000
    )
    lateness_seconds: int = declare(
        86_400, "an object is late if its ts is older than the log's greatest ts by more than this", **_SECONDS
    )
    max_ahead_seconds: int = declare(
        3_600,
        "objects with a ts further ahead of the clock when their ingest begins are rejected; 0: none is",
        **_SECONDS,
    )
    timezone: str = declare("UTC", "zone of times that carry none (IANA name)", check=check_zone)
    max_text_bytes: int = declare(1_048_576, "longer texts are rejected", least=1)
    max_id_bytes: int = declare(1_024, "objects and insertions with longer ids are rejected", least=1)
    max_payload_bytes: int = declare(65_536, "requests whose payload is longer as JSON are rejected", least=1)
    max_expression_words: int = declare(
        1_000, "requests whose keyword expression has more words are rejected", least=1, greatest=1_000
    )
    max_polygon_vertices: int = declare(
        1_000, "regions with more vertices (positions of all rings) are rejected", least=4, greatest=1_000_000
    )
    max_file_room: int = declare(
        200_000_000,
        "insertions of a file that together take more entries (docs/input.md) are rejected from there on",
        least=1,
    )
    quota_subscriptions: int = declare(
        20_000_000, "insertions that would give an owner more live subscriptions are rejected", least=0
    )
    quota_room: int = declare(
        10_000_000_000,
        "insertions that would make the live subscriptions of an owner take more entries (docs/input.md) are rejected",
        least=0,
    )
    quota_postings: int = declare(
        2_000_000_000, "insertions that would make more of these entries postings of the index are rejected", least=0
    )
    max_k: int = declare(
        10_000, "questions and requests with a greater k or limit are rejected", least=1, greatest=1_000_000
    )
    max_window_steps: int = declare(
        1_000, "requests of frequent_terms whose window has more steps are rejected", least=1, greatest=1_000_000
    )
    max_past_steps: int = declare(
        100_000, "requests of frequent_terms whose created_at lies more steps ago are rejected", least=1
    )
    sample_objects: int = declare(200_000, "objects in a planner's sample at most", least=1)
    sample_subscriptions: int = declare(200_000, "subscriptions in a planner's sample at most", least=1)
    cost_check: float = declare(
        0.0, "c1 of Definition 1 of PS2Stream: seconds to check one object against one subscription", **_SECONDS
    )
    cost_object: float = declare(5.6e-7, "c2: seconds to handle one object", **_SECONDS)
    cost_insert: float = declare(7.4e-7, "c3: seconds to handle one insertion", **_SECONDS)
    cost_delete: float = declare(2.1e-7, "c4: seconds to handle one deletion", **_SECONDS)
    cost_posting: float = declare(6.8e-9, "seconds to read one posting of an object's cell and term", **_SECONDS)
    cost_match: float = declare(1.7e-8, "seconds to find and write one match of `range`", **_SECONDS)
    cost_match_knn: float = declare(1.4e-7, "seconds to find one candidate of `knn`, and to send it", **_SECONDS)
    sigma: float = declare(
        1.3, "greatest load of a worker over the least that counts as balanced; above 1", above=1, below=1_000_000
    )
    balance_batches: int = declare(
        8, "batches over which loads are summed; an adjustment needs both halves to be out of balance", least=1
    )
    repartition_gain: float = declare(
        0.1, "share of the greatest load that a new partitioning must save to be worth it", least=0, below=1
    )
    answer_buckets: int = declare(
        8,
        "buckets into which answers of subscriptions with memory are divided; applies when a home is created",
        least=1,
        greatest=10_000,
    )
    retire_share: float = declare(
        0.1, "an older plan is retired once it serves no more than this share of the subscriptions", least=0, greatest=1
    )
    max_objects: int = declare(2_000_000, "objects of one micro-batch at most", least=1)
    max_candidates: int = declare(
        20_000_000,
        "candidates of one micro-batch at most, as expected: pairs of an object and a subscription whose answer it "
        "may enter",
        least=1,
    )
    merge_files: int = declare(
        8, "match compacts the small files of the index when a worker has more than this", least=1
    )
    retention_days: int = declare(
        7,
        "maintain keeps the files of table versions that are no older than this",
        least=1,
        greatest=LONGEST_SECONDS // 86_400,
    )
    keep: str = declare(
        "",
        "tables of which maintain removes older rows, as objects=400d,matches=90d (docs/operation.md); empty: none",
        check=lambda text: read_keep(text),
    )
    gate_bad_share: float = declare(
        0.5,
        "a file is quarantined if a greater share of its rows has a missing or unreadable field; 1: never",
        least=0,
        greatest=1,
    )
    gate_min_rows: int = declare(1000, "shares and volumes of fewer rows than this are not checked", least=1)
    gate_history: int = declare(
        20, "files of a kind that must have been ingested before new ones are compared with them", least=1
    )
    gate_volume_factor: float = declare(
        100.0,
        "a file is quarantined if its rows are this many times more or fewer than usual; 0: never",
        check=_check_volume_factor,
    )
    gate_stale_seconds: int = declare(
        0, "a file is quarantined if its greatest ts is older than this; 0: never", **_SECONDS
    )
    quarantine_files: int = declare(
        10_000, "quarantined files that are copied into the home at most; of more, the first characters stay", least=0
    )
    quarantine_bytes: int = declare(10_000_000_000, "bytes of these copies at most", least=0)
    read_seconds: int = declare(
        3_600, "a file is refused if reading it, or a part of it, takes longer than this", least=1, greatest=31_536_000
    )
    read_memory_bytes: int = declare(
        4_000_000_000,
        "a file that is read in a process of its own (docs/input.md) is refused if that takes more memory",
        least=500_000_000,
    )
    suite_rows: int = declare(
        100_000,
        "rows of a file, or pairs, that a suite of expectations judges; of more, that many are drawn at random",
        least=1,
        greatest=10_000_000,
    )
    pending_seconds: int = declare(
        900, "a file of a bucket that waits longer than this for its manifest or upload is reported", **_SECONDS
    )
    max_fetch_bytes: int = declare(100_000_000_000, "a larger file of a bucket is not fetched", least=1)
    settle_seconds: float = declare(
        30,
        "`run` leaves a landed text file whose last line has no end until it is so old; 0 reads it at once",
        least=0,
        greatest=86_400,
    )
    watch_seconds: float = declare(
        0.25, "interval at which run --watch lists the landing folder", least=0.05, greatest=3600
    )
    engine: str = declare(
        "auto",
        "where tasks run: local (this process), spark, or auto: little work in this process, much on Spark",
        choices=("auto", "spark", "local"),
    )
    spark_remote: str = declare("", "address of a Spark Connect server (`sc://…`) that runs already; empty: none")
    spark_master: str = declare("local[*]", "where Spark runs when a command starts it itself")
    spark_driver_memory: str = declare("2g", "heap of the driver")
    home_group: str = declare("", "group that may read a new home in a folder; empty: nobody but its owner may")
    cache_dir: str = declare("", "node-local folder of derived index arrays; empty: ~/.cache/pststream")
    cache_bytes: int = declare(20_000_000_000, "bound on the size of the segments in that folder", least=1)
    pairs_table: str = declare(
        names.NEVER,
        "when Spark updates the table of pairs for other programs (docs/tables.md): never, run (after each pststream "
        "run; by a watcher at most once a minute), or hourly (by the DAG pairs)",
        choices=(names.NEVER, names.AFTER_RUNS, names.HOURLY),
    )
    delivery_seconds: int = declare(20, "time for each sink in one run; the rest waits for the next run", least=1)
    sinks: tuple[SinkSettings, ...] = ()
    sources: tuple[SourceSettings, ...] = ()


def load_settings(home: str | os.PathLike[str] | None, **arguments: Any) -> Settings:
    """Load the settings of `home` (None: no file), then those of the environment, then `arguments` that are not None.

    Raises SettingError with the key and what is wrong with it.
    """
    values: dict[str, Any] = {}
    known = {key.name: key for key in setting_keys()}
    sinks: tuple[SinkSettings, ...] = ()
    sources: tuple[SourceSettings, ...] = ()
    for origin, given in _read_origins(home, known, arguments):
        for name, value in given.items():
            if name == "sinks":
                sinks = read_sinks(value, os.environ)
                continue
            if name == "sources":
                sources = _read_sources(value)
                continue
            if name not in known:
                raise SettingError(name, f"unknown key in {origin}", "known keys: " + ", ".join(known))
            values[name] = known[name].convert(value, name, f"{value!r} in {origin} ")
    settings = Settings(**values, sinks=sinks, sources=sources)
    for name, key in known.items():
        key.check_value(getattr(settings, name), name)
    _check_keep(settings)
    for name in ("cost_match", "cost_match_knn"):
        if (cost := getattr(settings, name)) > 1000 * settings.cost_posting > 0:
            # The sample weighs a match as this many postings.
            raise SettingError(name, f"{cost} is more than 1000 times cost_posting")
    return settings


_EXAMPLE = '"..."'
_EXAMPLES = {
    "columns": '{ ts = "time" }',
    "constants": '{ text = "" }',
    "types": '{ depth = "number" }',
    "attributes": '["depth", "place"], or false',
}


def _read_sources(tables: Any) -> tuple[SourceSettings, ...]:
    """Return the sources of a settings file in its order. Raises SettingError with the source and the key."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise SettingError("sources", "is not made of tables", "write [sources.<name>] and its keys below")
    known: dict[str, Any] = {field.name: "" for field in fields(SourceSettings)[1:]}
    known |= {"columns": {}, "constants": {}, "types": {}, "attributes": []}
    sources = []
    for name, table in tables.items():
        for key, value in table.items():
            if key not in known:
                raise SettingError(f"sources.{name}.{key}", "unknown key", "known keys: " + ", ".join(known))
            if key == "attributes" and isinstance(value, bool):
                continue
            texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            if type(value) is not type(known[key]) or not all(isinstance(text, str) for text in texts):
                hint = f"{key} = {_EXAMPLES.get(key, _EXAMPLE)}"
                raise SettingError(f"sources.{name}.{key}", f"{value!r} is of another kind", hint)
        if not table.get("files"):
            raise SettingError(f"sources.{name}.files", "is missing", 'files = "crimes" or files = "*/crimes-*.csv"')
        columns = tuple((field, tuple(text.split("+"))) for field, text in table.get("columns", {}).items())
        given: dict[str, Any] = {key: tuple(table.get(key, {}).items()) for key in ("constants", "types")}
        given |= {"columns": columns, "files": table["files"].rstrip("/")}
        kept = table.get("attributes", True)
        given["attributes"] = kept if isinstance(kept, bool) else tuple(kept)
        sources.append(SourceSettings(name, **table | given))
    return tuple(sources)


def find_source(sources: Sequence[SourceSettings], path: str, folder: str) -> SourceSettings | None:
    """Return the first source of which a file is; None if there is none.

    folder: `objects/` of a landing folder; `path` and it are absolute, or addresses
    """
    below = path.removeprefix(f"{folder.rstrip('/')}/")
    return next((one for one in sources if below.startswith(f"{one.files}/") or fnmatchcase(below, one.files)), None)


def setting_keys() -> list[SettingKey]:
    """Return the keys of the file in order; `sink_keys` returns those of a sink."""
    return declared_keys(Settings)


def default_file() -> str:
    """Return the text of a new `pststream.toml`: every key with its meaning and default."""
    lines = ["# Settings of this home. Each key can be overridden by the environment: PSTSTREAM_<KEY>.", ""]
    for key in setting_keys():
        lines += [f"# {key.meaning}", f"{key.name} = {_toml(key.default)}", ""]
    lines += [
        "# A source of objects: landed files with other columns. Add any number, below all keys above.",
        "# [sources.crimes]",
        '# files = "crimes"  # a folder below objects/, or a pattern: * and ? stand for any characters',
        '# columns = { object_id = "@row", ts = "time", text = "offense+location" }',
        '# constants = { text = "" }',
        '# timezone = "America/Chicago"',
        '# time_unit = "s"  # of numbers: s or ms',
        '# attributes = ["offense", "beat"]  # other columns that are kept; false: none; by default all',
        '# types = { beat = "number" }  # of columns that are kept: text, number, boolean or time',
        "",
        "# A sink that matches are delivered to. Add any number of sinks, below all keys above.",
        "# [sinks.alerts]",
    ]
    for key in sink_keys():
        if key.name != "secret":
            lines += [f"# # {key.meaning}", f"# {key.name} = {_toml(key.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def write_settings(home: str | os.PathLike[str], values: dict[str, float]) -> None:
    """Write these values into the settings file of a home; all other lines stay as they are."""
    files = files_at(normalize(home))
    lines = files.read(FILE).decode("utf-8").splitlines() if files.exists(FILE) else []
    left = dict(values)
    first_table = next((n for n, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    for n, line in enumerate(lines[:first_table]):
        name = line.split("=", 1)[0].strip()
        if name in left and not line.lstrip().startswith("#"):
            lines[n] = f"{name} = {left.pop(name)}"
    lines[first_table:first_table] = [f"{name} = {value}" for name, value in left.items()]
    files.write(FILE, ("\n".join(lines) + "\n").encode())


def _read_origins(
    home: Any, known: Mapping[str, SettingKey], arguments: dict[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """Return (origin as errors name it, values by key) of each origin of settings, lowest precedence first."""
    origins: list[tuple[str, dict[str, Any]]] = []
    with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        text = b"" if home is None else files_at(normalize(home)).read(FILE)
        try:
            origins.append((f"{home}/{FILE}", tomllib.loads(text.decode("utf-8"))))
        except (ValueError, RecursionError) as error:
            hint = "correct the file, or delete it and run init"
            raise SettingError(FILE, f"not readable as TOML: {error}", hint) from None
    variables = {name: f"PSTSTREAM_{name.upper()}" for name in known}
    origins.append(("the environment", {k: os.environ[v] for k, v in variables.items() if v in os.environ}))
    origins.append(("the arguments", {name: value for name, value in arguments.items() if value is not None}))
    return origins
