"""Withdraw objects, such as those of a wrong clock, by an event in the object log (`pststream withdraw`).

The event takes one position. From there on the watermark, the search for repeated ids, late subscriptions and new
batches ignore the objects, and the next batch retracts their matches. The objects stay stored. The table `withdrawals`
gets their keys first; the row of `files` that takes the position makes the withdrawal count. A run that was killed
before has withdrawn nothing, and is run again.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.progress import Progress, no_progress
from pststream.base.utc_times import from_micros, iso, to_micros, utc_now
from pststream.pipeline.index.restore_ended import restore_ended
from pststream.pipeline.upkeep.erase import finish_interrupted_work
from pststream.pipeline.upkeep.selected_objects import (
    SelectedObjects,
    Selection,
    count_caused_rejects,
    greatest_ts_of_others,
    select_objects,
)
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.erasures import login_name
from pststream.state.home import Home
from pststream.tables.delta_tables import greatest_value
from pststream.tables.ledgers import Ledger
from pststream.tables.log_events import WithdrawnObjects, withdrawn_objects

PATH = "withdrawal"
"""Path of a withdrawal in `files`."""


def withdraw(
    home: Home,
    settings: Settings,
    selection: Selection,
    *,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Withdraw the objects of a selection that are not withdrawn yet.

    Returns {"dry_run", "withdrawal_id" (null if nothing is withdrawn), "objects" (how many), "matched_objects" (those
    that batches have covered), "watermark_before", "watermark_after", "rejects": what `count_caused_rejects` returns},
    which `pststream withdraw --json` prints. Finishes an interrupted ingest or batch first. The driver has 16 bytes
    in memory for each object. Raises UsageError for a path that was not ingested; then nothing has changed.
    """
    home.check()
    if dry_run:
        return _document(home, Ledger(home), *_select(home, settings, selection), dry_run=True)
    with home.locked():
        finish_interrupted_work(home, settings, progress)
        ledger, (selected, withdrawn, watermark) = Ledger(home), _select(home, settings, selection)
        document = _document(home, ledger, selected, withdrawn, watermark, dry_run=False)
        if len(selected.keys):
            _restore_subscriptions(home, settings, ledger, watermark, progress)
            document["withdrawal_id"] = _record(home, ledger, selected.keys, watermark)
        return document


def _select(
    home: Home, settings: Settings, selection: Selection
) -> tuple[SelectedObjects, WithdrawnObjects, int | None]:
    """Return the objects to withdraw, those that are withdrawn already, and the greatest ts of all others."""
    withdrawn = withdrawn_objects(home)
    selected = select_objects(home, settings, selection, withdrawn)
    return selected, withdrawn, greatest_ts_of_others(home, selected.keys, withdrawn)


def _restore_subscriptions(
    home: Home, settings: Settings, ledger: Ledger, watermark: int | None, progress: Progress
) -> None:
    """Index subscriptions again that ended before every object to come, and no longer do."""
    before = ledger.watermark()
    if before is None or (watermark is not None and watermark >= to_micros(before)):
        return
    since = names.NO_TIME if watermark is None else watermark - settings.lateness_seconds * 1_000_000
    restored = restore_ended(home, settings, since, to_micros(before))
    crash_point("withdraw.restored")
    if restored:
        progress(f"{restored:,} pieces of ended subscriptions are in the index again")


def _record(home: Home, ledger: Ledger, keys: np.ndarray, watermark: int | None) -> int:
    """Write the keys of the objects, then the row of `files` that makes the withdrawal count; return its number."""
    number: int = greatest_value(home.table(names.WITHDRAWALS), "withdrawal_id") + 1
    numbers = pa.array(np.full(len(keys), number, np.int64))
    ledger_tables.append(home, names.WITHDRAWALS, pa.table({"withdrawal_id": numbers, "object_key": keys}))
    crash_point("withdraw.named")
    row = {
        "file_seq": ledger.next_file_seq, "ingest_id": ledger.next_ingest_id, "kind": names.OBJECTS, "path": PATH,
        "sha256": "", "bytes": 0, "options": json.dumps({"objects": len(keys), "requested_by": login_name()}),
        "status": "done", "rows": 1, "accepted": 0, "rejected": 0, "watermark": ledger.watermark(), "min_ts": None,
        "max_ts": None if watermark is None else from_micros(watermark), "started_at": utc_now(),
        "withdrawal_id": number,
    }  # fmt: skip
    ledger_tables.append(home, names.FILES, [row])
    crash_point("withdraw.done")
    return number


def _document(
    home: Home,
    ledger: Ledger,
    selected: SelectedObjects,
    withdrawn: WithdrawnObjects,
    watermark: int | None,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    before = ledger.watermark()
    keys = selected.keys
    after = before if not len(keys) else None if watermark is None else from_micros(watermark)
    nothing = {"rows": 0}
    caused = count_caused_rejects(home, selected, withdrawn) if len(keys) else None
    return {
        "dry_run": dry_run,
        "withdrawal_id": None,
        "objects": len(keys),
        "matched_objects": int(np.searchsorted(keys, ledger.objects_matched, "right")),
        "watermark_before": iso(before),
        "watermark_after": iso(after),
        "rejects": caused or {"late": nothing, "duplicate": nothing, "files": []},
    }
