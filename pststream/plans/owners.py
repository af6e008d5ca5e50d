"""Read the units that a plan which shares by subscription has recorded with the pieces of the index."""

import numpy as np
import pyarrow as pa

NO_UNIT = -1
"""Stands for a unit that is not recorded."""


def recorded_units(column: pa.Array) -> np.ndarray:
    """Return the values of the column `unit` of the index, NO_UNIT for null: int32[n]."""
    return np.asarray(column.fill_null(NO_UNIT).to_numpy(zero_copy_only=False)).astype(np.int32)
