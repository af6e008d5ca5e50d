"""Write a withdrawal of objects: the event takes one position of the object log."""

import json

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.utc_times import from_micros, utc_now
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.erasures import login_name
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value
from pststream.tables.ledgers import Ledger

PATH = "withdrawal"
"""Path of a withdrawal in `files`."""


def record_withdrawal(home: Home, ledger: Ledger, keys: np.ndarray, watermark: int | None) -> int:
    """Write the keys of the objects, then the row of `files` that makes the withdrawal count; return its id.

    keys: int64[n], ascending
    watermark: after the withdrawal, microseconds; None: no object is left
    """
    withdrawal_id: int = greatest_value(home.table(names.WITHDRAWALS), "withdrawal_id") + 1
    ids = pa.array(np.full(len(keys), withdrawal_id, np.int64))
    ledger_tables.append(home, names.WITHDRAWALS, pa.table({"withdrawal_id": ids, "object_key": keys}))
    crash_point("withdraw.named")
    row = {
        "file_seq": ledger.next_file_seq, "ingest_id": ledger.next_ingest_id, "kind": names.OBJECTS, "path": PATH,
        "sha256": "", "bytes": 0, "options": json.dumps({"objects": len(keys), "requested_by": login_name()}),
        "status": "done", "rows": 1, "accepted": 0, "rejected": 0, "watermark": ledger.watermark(), "min_ts": None,
        "max_ts": None if watermark is None else from_micros(watermark), "started_at": utc_now(),
        "withdrawal_id": withdrawal_id,
    }  # fmt: skip
    ledger_tables.append(home, names.FILES, [row])
    crash_point("withdraw.done")
    return withdrawal_id
