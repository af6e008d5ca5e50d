"""Make the first entry of a table's Delta log, and write checkpoints that are flushed before they get their names."""

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import DeltaTable, Schema

from pststream import __version__
from pststream.base.atomic_files import TEMPORARY_PREFIX, flush_file, flush_folders, replacing
from pststream.base.names import DELTA_LOG
from pststream.base.utc_times import to_micros, utc_now
from pststream.state.tables import Table
from pststream.storage.registry import local_path
from pststream.tables.open_tables import LAST_CHECKPOINT, latest_table, translate_delta_errors

ENGINE = f"pststream-{__version__}"
"""How the history of a table names this program."""

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


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
    return entry_of("CREATE TABLE", [{"protocol": PROTOCOL}, {"metaData": metadata}])


def entry_of(operation: str, actions: Iterable[Mapping[str, Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return an entry of a log: what commits, with further metadata, and the actions."""
    info = {"timestamp": now_millis(), "operation": operation, "operationParameters": {}, "engineInfo": ENGINE}
    lines = [{"commitInfo": info | dict(metadata or {})}, *actions]
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines).encode()


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
