"""Read a home's heartbeat file, and decide whether its watcher is alive and how far it lags."""

import datetime as dt
import json
from typing import Any

from pststream.delta_tables import AnyHome
from pststream.format_values import counted, duration
from pststream.names import HEARTBEAT
from pststream.storage.registry import files_at

GONE_SECONDS = 30.0
"""A watcher without a heartbeat for this long counts as dead."""

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "process": int, "at": str, "state": str, "lag_seconds": (int, float), "waiting_files": int, "batches": int,
    "failures": int, "error": (str, type(None)),
}  # fmt: skip
"""The fields that readers rely on. A file without them, or with other types, counts as missing."""


def read_watcher(home: AnyHome, now: dt.datetime) -> dict[str, Any] | None:
    """Read the heartbeat, with `alive`, and with `lag_seconds` as of now; None if there never was a watcher.

    A watcher that ended, on demand or by an error, is not alive.
    """
    try:
        heartbeat: dict[str, Any] = json.loads(files_at(home.path).read(HEARTBEAT))
        if not all(isinstance(heartbeat[name], kind) for name, kind in _FIELDS.items()):
            return None
        silent = (now - dt.datetime.fromisoformat(heartbeat["at"])).total_seconds()
        lag = round(heartbeat["lag_seconds"] + max(silent, 0.0), 3)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    alive = silent < GONE_SECONDS and heartbeat["state"] not in ("stopped", "failed")
    return heartbeat | {"alive": alive, "lag_seconds": lag}


def render_watcher(heartbeat: dict[str, Any] | None) -> list[str]:
    """Render a line on the watcher, and one on its last error."""
    if heartbeat is None:
        return []
    ended = heartbeat["state"] in ("stopped", "failed")
    head = "watcher        " if heartbeat["alive"] or heartbeat["state"] == "stopped" else "WATCHER        "
    state = heartbeat["state"] if heartbeat["alive"] or ended else "dead (no heartbeat)"
    waiting = f", {counted(heartbeat['waiting_files'], 'file')} waiting" if heartbeat["waiting_files"] else ""
    text = f"{state} (process {heartbeat['process']}, {heartbeat['at']})"
    text += f", {counted(heartbeat['batches'], 'batch', 'batches')}; lag {duration(heartbeat['lag_seconds'])}{waiting}"
    return [head + text, *([f"               {heartbeat['error']}"] if heartbeat["error"] else [])]
