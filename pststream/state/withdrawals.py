"""Write a withdrawal: the event takes one position of the object log, or of the request log."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.utc_times import from_micros, utc_now
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value
from pststream.tables.ledgers import Ledger

PATH = "withdrawal"
"""Path of a withdrawal in `files`."""


def append_withdrawal(
    home: Home, ledger: Ledger, keys: np.ndarray, watermark: int | None, options: Mapping[str, Any], rejected: int = 0
) -> int:
    """Write the keys of the objects, then the row of `files` that makes the withdrawal count; return its number.

    keys: int64[n], ascending
    watermark: after the withdrawal, microseconds; None: no object is left
    options: why, for the ledger
    rejected: rejects that the caller writes
    """
    withdrawal_id = name_withdrawn(home, keys)
    row = {
        "file_seq": ledger.next_file_seq, "ingest_id": ledger.next_ingest_id, "kind": names.OBJECTS, "path": PATH,
        "sha256": "", "bytes": 0, "options": json.dumps({"objects": len(keys), **options}), "status": "done", "rows": 1,
        "accepted": 0, "rejected": rejected, "watermark": ledger.watermark(), "min_ts": None,
        "max_ts": None if watermark is None else from_micros(watermark), "started_at": utc_now(),
        "withdrawal_id": withdrawal_id,
    }  # fmt: skip
    ledger_tables.append(home, names.FILES, [row])
    crash_point("withdraw.done")
    return withdrawal_id


def name_withdrawn(home: Home, keys: np.ndarray) -> int:
    """Write the keys of the rows of a withdrawal, which does not count yet: int64[n]; return its number."""
    withdrawal_id: int = greatest_value(home.table(names.WITHDRAWALS), "withdrawal_id") + 1
    ids = pa.array(np.full(len(keys), withdrawal_id, np.int64))
    ledger_tables.append(home, names.WITHDRAWALS, pa.table({"withdrawal_id": ids, "log_key": keys}))
    crash_point("withdraw.named")
    return withdrawal_id
