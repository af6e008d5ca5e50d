"""Progress and errors on standard error: plain texts, or with PSTSTREAM_LOG=json a JSON object a line.

Keys: time (ISO 8601, UTC), level (info, warning, error), step (the command, where a step says no other), process,
message; batch_id and others where a step has them (pststream/progress.py).
"""

import datetime as dt
import json
import os
import sys
from contextlib import suppress

from pststream.escape_text import escape_controls
from pststream.progress import LogMessage


class Lines:
    """Says a command's texts, each in one write: threads say theirs too."""

    def __init__(self, command: str, quiet: bool) -> None:
        self._command = command
        self._quiet = quiet
        self._json = os.environ.get("PSTSTREAM_LOG", "").lower() == "json"

    def say(self, text: str) -> None:
        """A word on how it goes; none where it is to be quiet."""
        if not self._quiet:
            self._write(text, text)

    def fail(self, message: str) -> None:
        """The error that ends it."""
        self._write(f"pststream: {message}", LogMessage(message, level="error"))

    def _write(self, text: str, note: str) -> None:
        with suppress(OSError):  # a disk that is full: what is said must not end what is done
            sys.stderr.write(
                (self._structured(note) if self._json else "\n".join(map(escape_controls, text.split("\n")))) + "\n"
            )
            sys.stderr.flush()

    def _structured(self, note: str) -> str:
        time = dt.datetime.now(dt.UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
        head = {"time": time, "level": "info", "step": self._command, "process": os.getpid()}
        return json.dumps(head | getattr(note, "fields", {}) | {"message": str(note)}, default=str)
