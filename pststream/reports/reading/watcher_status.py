"""The watcher of a home, as its heartbeat tells (state/heartbeat.py); it may be gone without a word."""

import datetime as dt
import json
from typing import Any

from pststream.names import HEARTBEAT
from pststream.reports.reading.table_reader import AnyHome
from pststream.storage.registry import files_at

GONE_SECONDS = 30.0
"""A watcher that has not beaten for so long is taken for dead."""

_TOLD: dict[str, type | tuple[type, ...]] = {
    "process": int, "at": str, "state": str, "lag_seconds": (int, float), "waiting_files": int, "batches": int,
    "failures": int, "error": (str, type(None)),
}  # fmt: skip
"""What others rely on; a file with anything else is taken for absent."""


def watcher(home: AnyHome, now: dt.datetime) -> dict[str, Any] | None:
    """The heartbeat, with `alive`, and `lag_seconds` as of now; None where there never was a watcher.

    One that ended, on demand or by an error, is not alive.
    """
    try:
        found: dict[str, Any] = json.loads(files_at(home.path).read(HEARTBEAT))
        if not all(isinstance(found[name], kind) for name, kind in _TOLD.items()):
            return None
        silent = (now - dt.datetime.fromisoformat(found["at"])).total_seconds()
        lag = round(found["lag_seconds"] + max(silent, 0.0), 3)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    alive = silent < GONE_SECONDS and found["state"] not in ("stopped", "failed")
    return found | {"alive": alive, "lag_seconds": lag}


def lines_of_watcher(found: dict[str, Any] | None) -> list[str]:
    """A line, and one for what went wrong."""
    if found is None:
        return []
    head = "watcher        " if found["alive"] or found["state"] == "stopped" else "WATCHER        "
    state = found["state"] if found["alive"] or found["state"] in ("stopped", "failed") else "gone without a word"
    waiting = f", {found['waiting_files']:,} files wait" if found["waiting_files"] else ""
    text = f"{state} (process {found['process']}, {found['at']}), {found['batches']:,} batches"
    text += f"; lag {found['lag_seconds']:.1f} s{waiting}"
    return [head + text, *([f"               {found['error']}"] if found["error"] else [])]
