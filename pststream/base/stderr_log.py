"""Write progress and errors to standard error: as plain text, or with PSTSTREAM_LOG=json as a JSON object per line.

Keys: time (ISO 8601, UTC), level (info, warning, error), step (default: the command), process, message; batch_id and
others where a step gives them (base/progress.py). The count of a long step is one line on a terminal, which is
rewritten; elsewhere it is logged every COUNT_SECONDS. A short step shows none.
"""

import json
import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from itertools import count

from pststream.base.progress import CountMessage, LogMessage
from pststream.base.texts import escape_controls
from pststream.base.utc_times import iso, utc_now

COUNT_SECONDS = 10.0
"""Seconds from the start of a step to its first logged count, and from one to the next, without a terminal."""

TERMINAL_SECONDS = 1.0
"""Seconds from the start of a step to its first count on a terminal."""

ERASED = "\r\x1b[K"
"""Moves the cursor of a terminal to the start of the line and erases the line."""


def _shown_line(line: str, number: int) -> str:
    """Return a line of a message for people; all but the first are indented, so that a name cannot forge a message."""
    return ("  " if number and not line.startswith("  ") else "") + escape_controls(line)


class StderrLog:
    """Logs the messages of a command, each in one write, as several threads may log."""

    def __init__(self, command: str, quiet: bool) -> None:
        self._command = command
        self._quiet = quiet
        self._json = os.environ.get("PSTSTREAM_LOG", "").lower() == "json"
        self._rewrites = not self._json and sys.stderr.isatty()
        self._shows_count = False
        self._counted_at = -COUNT_SECONDS
        self._lock = threading.Lock()

    def log_progress(self, text: str) -> None:
        """Log a progress message, unless the command is to be quiet."""
        if self._quiet:
            return
        if isinstance(text, CountMessage):
            self._log_count(text)
        else:
            self._write(text, text)

    def log_error(self, message: str) -> None:
        """Log the error that ends the command."""
        self._write(f"pststream: {message}", LogMessage(message, level="error"))

    def end_count(self) -> None:
        """Erase the count that the terminal shows."""
        with self._lock:
            if self._shows_count:
                self._print(ERASED)
            self._shows_count = False

    def _log_count(self, message: CountMessage) -> None:
        seconds = message.fields["seconds"]
        if self._rewrites and seconds < TERMINAL_SECONDS:
            self.end_count()
        elif self._rewrites:
            width = shutil.get_terminal_size().columns - 1
            with self._lock:
                self._print(ERASED + escape_controls(message)[:width])
                self._shows_count = True
        elif min(seconds, time.monotonic() - self._counted_at) >= COUNT_SECONDS:
            self._counted_at = time.monotonic()
            self._write(message, message)

    def _write(self, text: str, message: str) -> None:
        line = self._json_line(message) if self._json else "\n".join(map(_shown_line, text.split("\n"), count()))
        with self._lock:
            erased, self._shows_count = ERASED if self._shows_count else "", False
            self._print(erased + line + "\n")

    def _print(self, text: str) -> None:
        with suppress(OSError):  # a full disk must stop the log only, not the work
            sys.stderr.write(text)
            sys.stderr.flush()

    def _json_line(self, message: str) -> str:
        now = iso(utc_now(), "milliseconds")
        head = {"time": now, "level": "info", "step": self._command, "process": os.getpid()}
        return json.dumps(head | getattr(message, "fields", {}) | {"message": str(message)}, default=str)
