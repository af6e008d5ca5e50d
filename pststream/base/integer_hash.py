"""Hash integers to 64 bits with a fixed mixing function (SplitMix64), as pseudo-random numbers that never change."""

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def hash_integers(values: np.ndarray, salt: int = 0) -> np.ndarray:
    """Hash each integer of `values` to a uint64; one-to-one for a given salt.

    Source: the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
    generators, 2014).
    """
    start = np.uint64((salt * int(_STEP)) & (2**64 - 1))
    z = np.asarray(values).astype(np.int64).view(np.uint64) * _STEP + (start ^ _STEP)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def hash_to_unit(values: np.ndarray, salt: int = 0) -> np.ndarray:
    """Hash as `hash_integers` does, to float64 in [0, 1)."""
    return (hash_integers(values, salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53
