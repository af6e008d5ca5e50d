"""Write the heartbeat of a running watcher: a small JSON file in the home, rewritten every 1 to 10 seconds."""

import json
import os
import threading
import time
from contextlib import suppress
from typing import Any

from pststream.base.errors import PstError
from pststream.base.names import HEARTBEAT
from pststream.base.texts import mask_urls
from pststream.base.utc_times import iso, utc_now
from pststream.state.home import Home


class Heartbeat:
    """Writes the heartbeat while its `with` block runs. Keys of the file, times as ISO 8601 in UTC:

    process, started_at, at     process id; when the watcher started; when the file was written
    state, since                starting, idle, working, waiting (upkeep has the home), failing, stopped, failed
    lag_seconds                 age at `at` of the moment up to which every landed file is matched
    waiting_files               files that have landed and are not matched
    batch_id, batch_at          the last batch, and when it was done; null before the first
    batches                     batches since the start
    failures                    number of failed rounds since the last good one
    error                       why the last round failed
    """

    def __init__(self, home: Home) -> None:
        self._files = home.files
        self._seconds = home.storage.heartbeat_seconds
        now = _now()
        self._content: dict[str, Any] = {"process": os.getpid(), "started_at": now, "state": "starting", "since": now}
        self._content |= dict.fromkeys(("batch_id", "batch_at", "error")) | {"batches": 0, "failures": 0}
        self._content |= {"waiting_files": 0}
        self._matched_until = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> "Heartbeat":
        self._write()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._ended.set()
        self._thread.join()
        if isinstance(error, Exception):
            self.report("failed", error=f"{type(error).__name__}: {mask_urls(str(error))}")
        else:
            self.report("stopped")

    def report(self, state: str, matched_until: float | None = None, **changes: Any) -> None:
        """Change the content; write it at once if the state changes. `matched_until`: see LandingScanner."""
        with self._lock:
            is_new = state != self._content["state"]
            self._content |= changes | ({"state": state, "since": _now()} if is_new else {})
            self._matched_until = matched_until or self._matched_until
        if is_new:
            self._write()

    def _beat(self) -> None:
        while not self._ended.wait(self._seconds):
            self._write()

    def _write(self) -> None:
        """Write the file. A full disk or an unavailable storage delays the heartbeat and does not stop the watcher."""
        with self._lock:
            lag = round(time.monotonic() - self._matched_until, 3)
            text = json.dumps({**self._content, "lag_seconds": lag, "at": _now()}, indent=1)
            with suppress(OSError, PstError):
                self._files.write(HEARTBEAT, (text + "\n").encode(), durable=False)


def _now() -> str:
    return str(iso(utc_now(), "milliseconds"))
