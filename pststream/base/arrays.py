"""Find distinct values, look values up among sorted keys, make arrays read-only, and hash integers to 64 bits."""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike


def distinct_values(values: np.ndarray) -> np.ndarray:
    """Return the distinct values of an array of any shape, ascending; no value is NaN.

    `numpy.unique` finds them with a hash table (NumPy 2.3 and later): with a million distinct keys it takes 100 times
    as long.
    """
    ordered = np.sort(values, axis=None)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def find_among(values: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each value among the keys, and whether it is one: int64[n], bool[n].

    keys  ascending; the first of equal ones is found. The index of a value that is no key means nothing; 0 without keys
    """
    if not len(keys):
        return np.zeros(len(values), np.int64), np.zeros(len(values), bool)
    index = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return index, keys[index] == values


def is_among(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return which values are among the keys (ascending): bool[n]."""
    return find_among(values, keys)[1]


def look_up(values: np.ndarray, keys: np.ndarray, entries: np.ndarray, otherwise: int) -> np.ndarray:
    """Return for each value the entry of the equal key, or `otherwise` if no key is equal: int64[n].

    keys     ascending
    entries  int64, one of each key
    """
    index, is_key = find_among(values, keys)
    result = np.full(len(values), otherwise, np.int64)
    result[is_key] = entries[index[is_key]]
    return result


def offsets_of(lengths: ArrayLike) -> np.ndarray:
    """Return the borders of consecutive slices of these lengths: int64[n+1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int64, copy=False)


def sum_slices(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the sum of the integers in each slice: int64[n]; offsets: int64[n+1]."""
    sums = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def concatenate_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the integers of ranges, one range after the other: int64[]."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array.

    Arrays from Arrow are read-only. For numba that is a type of its own: it compiles a kernel for each type, which
    takes seconds, and loads each in every process.
    """
    view = array.view()
    view.flags.writeable = False
    return view


Arrays = TypeVar("Arrays", bound=Iterable[np.ndarray])


def make_read_only(arrays: Arrays) -> Arrays:
    """Make arrays read-only, and return them."""
    for array in arrays:
        array.flags.writeable = False
    return arrays


_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def hash_integers(values: np.ndarray, salt: int = 0) -> np.ndarray:
    """Hash each integer of `values` to a uint64 that never changes; one-to-one for a given salt.

    Source: the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
    2014).
    """
    start = np.uint64((salt * int(_STEP)) & (2**64 - 1))
    z = np.asarray(values).astype(np.int64).view(np.uint64) * _STEP + (start ^ _STEP)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def hash_to_unit(values: np.ndarray, salt: int = 0) -> np.ndarray:
    """Hash as `hash_integers` does, to float64 in [0, 1)."""
    return (hash_integers(values, salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53
