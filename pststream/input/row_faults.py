"""Record the first fault of each row while whole columns are checked field by field, and yield the rejects."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pststream.input.raw_values import format_number
from pststream.input.reject_reasons import MAX_RAW_CHARACTERS, Reject


class RowFaults:
    """The first fault of each of `rows` rows: its field, reason and raw value."""

    def __init__(self, rows: int) -> None:
        self._fault = np.full(rows, -1, dtype=np.int64)
        self._kinds: list[tuple[str, str, pa.Array]] = []

    @property
    def faultless(self) -> np.ndarray:
        """Whether each row has no fault: bool[rows]."""
        return self._fault < 0

    def mark(self, bad: np.ndarray, field: str, reason: str, raw: pa.Array) -> None:
        """Mark the faultless rows where `bad` (bool[rows]) is true; `raw` has the values of all rows."""
        new = bad & self.faultless
        if new.any():
            self._fault[new] = len(self._kinds)
            self._kinds.append((field, reason, raw))

    def rejects(self, rows: np.ndarray) -> Iterator[Reject]:
        """Yield the marked rows as rejects; `rows` int64[rows] has the row numbers in the file."""
        for i in np.flatnonzero(self._fault >= 0):
            field, reason, raw = self._kinds[self._fault[i]]
            yield Reject(int(rows[i]), field, reason, _raw_text(raw, int(i)))


def _raw_text(raw: pa.Array, at: int) -> str | None:
    scalar = raw[at]
    if not scalar.is_valid:
        return None
    try:
        value = scalar.as_py()
        return (format_number(value) if isinstance(value, float) else str(value))[: MAX_RAW_CHARACTERS + 1]
    except (ValueError, OverflowError):  # such as a time after the year 9999, also inside a list
        return f"{raw.type} {' '.join(raw.slice(at, 1).to_string().split())}"
