"""Find the greatest time, and the N-th most recent object, among objects that a version of the table has."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def greatest_time(times: np.ndarray, keys: np.ndarray, up_to_key: int, least: int) -> int:
    """Return the greatest ts of objects with key <= up_to_key; `least` if it is not above that."""
    greatest = least
    for row in range(len(times)):
        if keys[row] <= up_to_key and times[row] > greatest:
            greatest = times[row]
    return greatest


@kernel
def count_by_time(
    times: np.ndarray, keys: np.ndarray, up_to_key: int, low: int, high: int, width: int, counts: np.ndarray
) -> None:
    """Add the objects with low <= ts <= high and key <= up_to_key to counts[(ts - low) // width]; int64[]."""
    for row in range(len(times)):
        if low <= times[row] <= high and keys[row] <= up_to_key:
            counts[(times[row] - low) // width] += 1


@kernel
def keys_at(times: np.ndarray, keys: np.ndarray, up_to_key: int, ts: int) -> np.ndarray:
    """Return the keys of objects with this ts and key <= up_to_key: int64[]."""
    count = 0
    for row in range(len(times)):
        count += times[row] == ts and keys[row] <= up_to_key
    chosen = np.empty(count, np.int64)
    count = 0
    for row in range(len(times)):
        if times[row] == ts and keys[row] <= up_to_key:
            chosen[count] = keys[row]
            count += 1
    return chosen
