"""The heartbeat of a watcher: a small file of the home, written anew again and again, which tells how it is."""

import json
import os
import threading
import time
from contextlib import suppress
from typing import Any

from pststream.errors import PstError
from pststream.names import HEARTBEAT
from pststream.state.home import Home
from pststream.utc_times import iso, utc_now


class Heart:
    """Beats between `with` and its end. Keys of the file, times as ISO 8601 in UTC:

    process, started_at, at     who, since when, when the file was written
    state, since                starting, idle, working, waiting (upkeep holds the home), failing, stopped, failed
    lag_seconds                 all that had landed so long before `at` is matched
    waiting_files               files that have landed and are not matched
    batch_id, batch_at          its last batch, and when that was done; null before the first
    batches, failures           batches since its start; rounds that have failed in a row
    error                       why the last one failed
    """

    def __init__(self, home: Home) -> None:
        self._files = home.files
        self._seconds = home.storage.heartbeat_seconds
        now = _now()
        self._told: dict[str, Any] = {"process": os.getpid(), "started_at": now, "state": "starting", "since": now}
        self._told |= dict.fromkeys(("batch_id", "batch_at", "error")) | {"batches": 0, "failures": 0}
        self._told |= {"waiting_files": 0}
        self._matched_until = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> "Heart":
        self._write()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._ended.set()
        self._thread.join()
        if isinstance(error, Exception):
            self.tell("failed", error=f"{type(error).__name__}: {error}")
        else:
            self.tell("stopped")

    def tell(self, state: str, matched_until: float | None = None, **changes: Any) -> None:
        """How it is from now on; `matched_until`: see Arrivals. Written at once if the state is another."""
        with self._lock:
            new = state != self._told["state"]
            self._told |= changes | ({"state": state, "since": _now()} if new else {})
            self._matched_until = matched_until or self._matched_until
        if new:
            self._write()

    def _beat(self) -> None:
        while not self._ended.wait(self._seconds):
            self._write()

    def _write(self) -> None:
        """Whole or not at all; a disk that is full, or a store that is away, makes it late, and ends nothing."""
        with self._lock:
            lag = round(time.monotonic() - self._matched_until, 3)
            text = json.dumps({**self._told, "lag_seconds": lag, "at": _now()}, indent=1)
            with suppress(OSError, PstError):
                self._files.write(HEARTBEAT, (text + "\n").encode())


def _now() -> str:
    return str(iso(utc_now(), "milliseconds"))
