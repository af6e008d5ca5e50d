"""Order the rows of answers: by question, least value, newest, last in the log."""

import numpy as np


def order_rows(question: np.ndarray, value: np.ndarray, ts: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the order of rows by question, least value, newest, last in the log: int64[n].

    Question and value, or ts where all values are equal, are packed into one number, which decides unless it has ties:
    one sort of numbers is several times faster than `lexsort`.

    question, ts, key  int64[n]
    value              float32[n]
    """
    if not len(question):
        return np.empty(0, np.int64)
    second = -ts if (value == value[0]).all() else _ordered_bits(value)
    second = second - second.min()
    bits = int(second.max()).bit_length()
    if bits + int(question.max()).bit_length() < 64:
        packed = question << bits | second
        order = np.argsort(packed)
        packed = packed[order]
        if (packed[1:] > packed[:-1]).all():
            return order
    return np.lexsort((-key, -ts, value, question))


def _ordered_bits(value: np.ndarray) -> np.ndarray:
    """Return int64[n] in the order of `value`, float32[n]; equal values have equal numbers."""
    bits = (value + np.float32(0.0)).view(np.int32)
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64)
