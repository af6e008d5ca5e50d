"""Commit entries to Delta's logs: files that tasks wrote, with the id of the ingest or batch."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable, Transaction

from pststream.base.errors import PstError, RetryableError
from pststream.base.texts import escape_controls
from pststream.state.delta_log import next_entry, now_millis, write_checkpoint
from pststream.state.home import Home

WRITER_IDS = ("ingest_id", "batch_id", "plan_version")
"""Columns that name what wrote a row."""

USER_METADATA = "userMetadata"
"""The field of an entry that DESCRIBE HISTORY shows under this name."""


class VersionTaken(RetryableError):
    """Another process has committed the version that was to be committed."""


def describe_writer(bounds: Mapping[str, tuple[Any, Any]], step: str = "") -> dict[str, str]:
    """Return the metadata of a commit of rows: JSON of its step and of each column of WRITER_IDS with one value.

    bounds: least and greatest value of columns of the rows; both null if there is none
    """
    one_value = {name: low for name, (low, high) in bounds.items() if low == high and low is not None}
    ids = {name: one_value[name] for name in WRITER_IDS if name in one_value}
    content = {"step": step, **ids} if step else ids
    return {USER_METADATA: json.dumps(content)} if content else {}


def metadata_action(table: DeltaTable, configuration: Mapping[str, str]) -> dict[str, Any]:
    """Return the action that gives a table these properties; everything else stays."""
    metadata = table.metadata()
    return {
        "metaData": {
            "id": metadata.id, "name": metadata.name, "description": metadata.description,
            "format": {"provider": "parquet", "options": {}}, "schemaString": table.schema().to_json(),
            "partitionColumns": metadata.partition_columns, "createdTime": metadata.created_time,
            "configuration": dict(configuration),
        }
    }  # fmt: skip


def commit_entry(
    home: Home,
    name: str,
    table: DeltaTable,
    operation: str,
    actions: Iterable[Mapping[str, Any]],
    transactions: Sequence[Transaction] = (),
    info: Mapping[str, Any] | None = None,
) -> None:
    """Commit actions of Delta's protocol to a table of a home as the version after that of `table`.

    info: what the history of the table shows, by the keys of Delta's commitInfo

    The files that the actions add are flushed to disk already; the entry is flushed here. delta-rs flushes nothing. It
    also lists the log several times in a commit, which takes 7 us for each entry, and names every commit of given files
    WRITE. Raises VersionTaken if another process has committed that version, HomeError as `next_entry`.
    """
    now, version = now_millis(), table.version() + 1
    carried = [
        {"txn": {"appId": one.app_id, "version": one.version, "lastUpdated": now}}
        for one in home.transactions(table, *transactions)
    ]
    content = next_entry(home.table(name), table, operation, [*carried, *actions], info)
    entry = f"tables/{name}/_delta_log/{version:020}.json"
    # A storage may have created the file and lost its answer; then a second try finds this content.
    if not home.files.create(entry, content) and _read(home, entry) != content:
        raise VersionTaken(f"{home.table(name)}: another process has committed at the same time", "run this again")
    if version % int(table.metadata().configuration.get("delta.checkpointInterval", 100)) == 0:  # as delta-rs does
        try:
            write_checkpoint(home.table(name))
        except (OSError, PstError) as error:  # the entry is committed, and readers need no checkpoint
            reason = f"{home.table(name)}: no checkpoint was written, so reading its log takes longer: {error}"
            warnings.warn(escape_controls(reason), RuntimeWarning, stacklevel=2)


def _read(home: Home, entry: str) -> bytes:
    """Return an entry; empty if a storage has refused to create it while another process was about to."""
    try:
        return home.files.read(entry)
    except FileNotFoundError:
        return b""
