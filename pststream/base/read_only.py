"""Make arrays read-only, so that kernels get one type, whether Arrow owns the memory of an array or NumPy does."""

import numpy as np


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array.

    Arrays from Arrow are read-only. For numba that is a type of its own: it compiles a kernel for each type, which
    takes seconds, and loads each in every process.
    """
    view = array.view()
    view.flags.writeable = False
    return view
