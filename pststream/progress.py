"""What a step says while it works, for people and for programs."""

from typing import Any


class Note(str):
    """A text, and fields that go beside it where a log is JSON: batch_id, step, level (else info)."""

    fields: dict[str, Any]

    def __new__(cls, text: str, **fields: Any) -> "Note":
        """A text with fields."""
        note = super().__new__(cls, text)
        note.fields = fields
        return note
