"""Find the unit of each subscription under a plan that shares by subscription.

The unit of a subscription is recorded when the plan places it. A subscription that another plan took in has no unit
here, for a migration places nothing: it belongs to a unit by its key, until the next `plan` places it. A unit
that a plan with other units recorded counts modulo the number of units. So the owner is a function of the plan and of
the stored piece, and every reader of the index finds the same one.
"""

import numpy as np
import pyarrow as pa

from pststream.domain.integer_hash import hash_integers
from pststream.domain.plan import PartitionPlan

NO_UNIT = -1
"""Stands for a unit that is not recorded."""

SALT = 29


def recorded_units(column: pa.Array) -> np.ndarray:
    """Return the values of the column `unit` of the index, NO_UNIT for null: int32[n]."""
    return np.asarray(column.fill_null(NO_UNIT).to_numpy(zero_copy_only=False)).astype(np.int32)


def owner_units(keys: np.ndarray, units: np.ndarray, plan: PartitionPlan) -> np.ndarray:
    """Return the unit that each piece belongs to: int32[n].

    keys   int64[n]  subscription keys; `~key` stands for the same subscription
    units  int32[n]  units that are recorded with the pieces, or NO_UNIT
    """
    by_key = hash_integers(np.where(keys < 0, ~keys, keys), SALT) % np.uint64(plan.units)
    return np.where(units >= 0, units % plan.units, by_key.astype(np.int64)).astype(np.int32)


def owner_workers(keys: np.ndarray, units: np.ndarray, plan: PartitionPlan) -> np.ndarray:
    """Return the worker that each piece belongs to: int32[n]; the arguments are those of `owner_units`."""
    return plan.unit_worker[owner_units(keys, units, plan)].astype(np.int32)
