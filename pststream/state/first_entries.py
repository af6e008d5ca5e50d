"""Make the entry that begins the Delta log of a table: its protocol, its columns and its properties."""

import json
import uuid
from collections.abc import Mapping

from deltalake import Schema

from pststream import __version__
from pststream.base.utc_times import to_micros, utc_now
from pststream.state.tables import Table

ENGINE = f"pststream-{__version__}"
"""How the history of a table names this program."""

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


def first_entry(table: Table, properties: Mapping[str, str]) -> bytes:
    """Return the entry that creates a table with these properties.

    delta-rs would write it without flushing it to disk.
    """
    now = to_micros(utc_now()) // 1000
    info = {"timestamp": now, "operation": "CREATE TABLE", "operationParameters": {}, "engineInfo": ENGINE}
    metadata = {
        "id": str(uuid.uuid4()), "name": None, "description": table.meaning,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(table.delta_schema).to_json(),
        "partitionColumns": list(table.partitions), "createdTime": now, "configuration": dict(properties),
    }  # fmt: skip
    lines = ({"commitInfo": info}, {"protocol": PROTOCOL}, {"metaData": metadata})
    return "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines).encode()
