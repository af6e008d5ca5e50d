"""Define how steps log their progress: the log function, messages with fields for JSON logs, and counts with a rate."""

import time
from collections.abc import Callable
from typing import Any

from pststream.format_values import counted, duration

Progress = Callable[[str], None]
"""Logs one message of a running step: a text, a LogMessage or a CountMessage."""


def no_progress(message: str) -> None:
    """Log nothing."""


class LogMessage(str):
    """A text with further fields for a JSON log: batch_id, step, level (default info)."""

    fields: dict[str, Any]

    def __new__(cls, text: str, **fields: Any) -> "LogMessage":
        """Make a message of a text and its fields."""
        message = super().__new__(cls, text)
        message.fields = fields
        return message


class CountMessage(LogMessage):
    """How far a long step is. The next one replaces it: on a terminal in the same line, elsewhere after some time."""


class StepCounter:
    """Counts what a long step has done of a known total, and logs it with the rate and the time left."""

    def __init__(self, progress: Progress, noun: str, total: int, **fields: Any) -> None:
        """Count up to `total`; noun: in the singular; fields: of each message in a JSON log."""
        self._progress, self._noun, self._total, self._fields = progress, noun, total, fields
        self._done, self._began = 0, time.monotonic()

    def add(self, number: int) -> None:
        """Count `number` more, and log the state of the step while something is left."""
        self._done += number
        if self._done < self._total:
            self._progress(CountMessage(self._text(time.monotonic() - self._began), **self._fields))

    def _text(self, seconds: float) -> str:
        text = f"{self._done:,} of {counted(self._total, self._noun)}"
        if seconds <= 0 or not self._done:
            return text
        rate = self._done / seconds
        text += f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
        return f"{text}, {duration((self._total - self._done) / rate)} left"
