"""Write progress and errors to standard error: as plain text, or with PSTSTREAM_LOG=json as a JSON object per line.

Keys: time (ISO 8601, UTC), level (info, warning, error), step (default: the command), process, message; batch_id and
others where a step gives them (pststream/progress.py).
"""

import json
import os
import sys
from contextlib import suppress

from pststream.escape_text import escape_controls
from pststream.progress import LogMessage
from pststream.utc_times import iso, utc_now


class StderrLog:
    """Logs the messages of a command, each in one write, as several threads may log."""

    def __init__(self, command: str, quiet: bool) -> None:
        self._command = command
        self._quiet = quiet
        self._json = os.environ.get("PSTSTREAM_LOG", "").lower() == "json"

    def log_progress(self, text: str) -> None:
        """Log a progress message, unless the command is to be quiet."""
        if not self._quiet:
            self._write(text, text)

    def log_error(self, message: str) -> None:
        """Log the error that ends the command."""
        self._write(f"pststream: {message}", LogMessage(message, level="error"))

    def _write(self, text: str, message: str) -> None:
        line = self._json_line(message) if self._json else "\n".join(map(escape_controls, text.split("\n")))
        with suppress(OSError):  # a full disk must stop the log only, not the work
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def _json_line(self, message: str) -> str:
        time = iso(utc_now(), "milliseconds")
        head = {"time": time, "level": "info", "step": self._command, "process": os.getpid()}
        return json.dumps(head | getattr(message, "fields", {}) | {"message": str(message)}, default=str)
