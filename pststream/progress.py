"""Define how steps log their progress: the type of the log function, and messages with fields for JSON logs."""

from collections.abc import Callable
from typing import Any

Progress = Callable[[str], None]
"""Logs one message of a running step, a text or a LogMessage."""


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
