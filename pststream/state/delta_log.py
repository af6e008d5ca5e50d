"""Make the entries of Delta's logs, and write checkpoints that are flushed before they get their names."""

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import DeltaTable, Schema

from pststream import __version__
from pststream.base.atomic_files import TEMPORARY_PREFIX, flush_file, flush_folders, replacing
from pststream.base.errors import HomeError
from pststream.base.names import DELTA_LOG
from pststream.base.utc_times import to_micros, utc_now
from pststream.state.tables import TABLES, Table
from pststream.storage.registry import local_path, storage_of
from pststream.tables.open_tables import LAST_CHECKPOINT, latest_table, translate_delta_errors

ENGINE = f"pststream-{__version__}"
"""How the history of a table names this program."""

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}

LATENT = {"appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed"}
"""Features of Delta that a log may name: they ask for nothing until a property or a column uses them."""

APPEND_ONLY, CONSTRAINT = "delta.appendOnly", "delta.constraints."
SWITCHES = {"delta.enableChangeDataFeed": "changeDataFeed", APPEND_ONLY: "appendOnly"}
IN_COLUMNS = {"generation": "generatedColumns", "identity": "identityColumns", "default": "allowColumnDefaults"}
"""Features by the property that turns them on; by the word that their keys have in the metadata of a column."""


def first_entry(table: Table, properties: Mapping[str, str]) -> bytes:
    """Return the entry that creates a table with these properties.

    delta-rs would write it without flushing it to disk.
    """
    metadata = {
        "id": str(uuid.uuid4()), "name": None, "description": table.meaning,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(table.delta_schema).to_json(),
        "partitionColumns": list(table.partitions), "createdTime": now_millis(), "configuration": dict(properties),
    }  # fmt: skip
    return _entry_of("CREATE TABLE", [{"protocol": PROTOCOL}, {"metaData": metadata}], {"isBlindAppend": True})


def next_entry(
    address: str,
    table: DeltaTable,
    operation: str,
    actions: Iterable[Mapping[str, Any]],
    info: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the entry of a log after the version of `table`: what commits, with further information, and the actions.

    Every entry but the first one of a log is made here. Raises HomeError if another program has given the table a
    feature of Delta that our commits would not honour.
    """
    home, _, name = address.rpartition("/tables/")
    if unhonoured := _find_unhonoured(table, TABLES[name]):
        reason = f"its table {name} uses what commits of PSTStream do not honour: {', '.join(sorted(unhonoured))}"
        spark = f"ALTER TABLE delta.`{storage_of(address).spark_uri(address)}`"
        steps = "; ".join(f"{spark} {step}" for step in sorted(filter(None, unhonoured.values())))
        raise HomeError(home, reason, f"in Spark: {steps}" if steps else "restore the home from a backup")
    return _entry_of(operation, actions, info)


def _entry_of(operation: str, actions: Iterable[Mapping[str, Any]], info: Mapping[str, Any] | None) -> bytes:
    about = {
        "timestamp": now_millis(), "operation": operation, "operationParameters": {}, "isBlindAppend": False,
        "engineInfo": ENGINE,
    }  # fmt: skip
    lines = [{"commitInfo": about | dict(info or {})}, *actions]
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines).encode()


def _find_unhonoured(table: DeltaTable, declared: Table) -> dict[str, str]:
    """Return the features that a table uses and our commits do not honour, each with the SQL that ends its use.

    The SQL follows `ALTER TABLE name`; it is empty where Delta has none. NOT NULL and `delta.appendOnly` are honoured
    where the table declares them. Before version 7 a log names no features: then its version implies them.
    """
    protocol, version = table.protocol(), table.protocol().min_writer_version
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    features |= {5: {"columnMapping"}, 6: {"columnMapping", "identityColumns"}}.get(version, set())
    uses = {name: f"DROP FEATURE {name}" for name in features - LATENT}
    if version > 7:
        uses[f"version {version} of the protocol"] = ""
    for key, value in table.metadata().configuration.items():
        if key.startswith(CONSTRAINT):
            constraint = key.removeprefix(CONSTRAINT)
            uses[f"the checkConstraints {constraint}"] = f"DROP CONSTRAINT {constraint}"
        elif value.lower() == "true" and key in SWITCHES and not (declared.append_only and key == APPEND_ONLY):
            uses[SWITCHES[key]] = f"UNSET TBLPROPERTIES ('{key}')"
    stored, wanted = {column["name"]: column for column in columns_of(table.schema())}, declared_columns(declared)
    for name, column in stored.items():
        for key in column["metadata"].keys() - {"comment"}:
            feature = next((feature for word, feature in IN_COLUMNS.items() if word.lower() in key.lower()), key)
            uses[f"{feature} of the column {name}"] = ""
    for name in stored.keys() | wanted.keys():
        if name not in stored or stored[name] | {"metadata": None} != wanted.get(name):
            uses[f"another declaration of the column {name}"] = ""
    return uses


def columns_of(schema: Schema) -> list[dict[str, Any]]:
    """Return the columns as Delta's log has them, which no library names in another way."""
    columns: list[dict[str, Any]] = json.loads(schema.to_json())["fields"]
    return columns


@cache
def declared_columns(table: Table) -> dict[str, dict[str, Any]]:
    """Return the declared columns by name, without comments, since homes with other comments have the same rows."""
    columns = columns_of(Schema.from_arrow(table.delta_schema))
    return {column["name"]: column | {"metadata": None} for column in columns}


def now_millis() -> int:
    """Return the current time as entries have it."""
    return to_micros(utc_now()) // 1000


MARK = ".checkpoint."
"""What follows the version in the name of a checkpoint."""

COPY = ".checkpoint-"
"""How the names of copies of logs begin, which are in the folder of the tables."""

LEFT_SECONDS = 3600.0
"""Files and copies in writing that are older were left by a process that was killed."""


def write_checkpoint(address: str) -> None:
    """Write a checkpoint of a table at its latest version; remove expired entries that an earlier checkpoint has.

    Entries before the new checkpoint are removed next time: another process may be reading them now.
    """
    path = local_path(address)
    with latest_table(address) as table, translate_delta_errors(address):
        table.cleanup_metadata()
        if path is None:
            table.create_checkpoint()
        else:
            _write_flushed(path, table.version())


def _write_flushed(path: Path, version: int) -> None:
    """Write the checkpoint of a local table.

    delta-rs flushes nothing, and a power cut could leave a damaged checkpoint that every reader would then use. So it
    writes the checkpoint for a copy of the log, made of hard links.
    """
    log = path / DELTA_LOG
    _remove_leftovers([*path.parent.glob(f"{COPY}*"), *log.glob(f"{TEMPORARY_PREFIX}*")])
    names = [name for name in os.listdir(log) if name[:20].isdigit()]
    last_version = max((name[:20] for name in names if MARK in name), default="")
    names = [name for name in names if name[:20] >= last_version]  # the last checkpoint, and all entries from there on
    if any(MARK in name and name[:20] >= f"{version:020}" for name in names):
        return  # another process has written it, or a later one
    with TemporaryDirectory(prefix=COPY, dir=path.parent) as folder:
        copy = Path(folder, DELTA_LOG)
        copy.mkdir()
        for name in names:
            _link(log / name, copy / name)
        DeltaTable(folder, version).create_checkpoint()
        for name in sorted(name for name in os.listdir(copy) if name.startswith(f"{version:020}{MARK}")):
            flush_file(copy / name)
            os.replace(copy / name, log / name)
        flush_folders([log])
        with replacing(log / LAST_CHECKPOINT, several_writers=True) as last:
            last.write_bytes((copy / LAST_CHECKPOINT).read_bytes())


def _remove_leftovers(paths: list[Path]) -> None:
    """Remove what killed processes left: entries in it name data that may be erased since."""
    for path in paths:
        with suppress(OSError):  # another process has removed it
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _link(source: Path, target: Path) -> None:
    """Make a hard link, or a copy: Linux refuses links to files of other users that this one must not write."""
    try:
        os.link(source, target)
    except PermissionError:
        shutil.copyfile(source, target)
