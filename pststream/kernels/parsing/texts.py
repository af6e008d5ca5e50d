"""Look at the first byte of each text of a column."""

import numpy as np

from pststream.kernels.compile import kernel


@kernel
def begins_visibly(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return whether each text begins with a visible ASCII character: bool[n].

    data uint8[bytes], offsets int64[n+1]: slice of `data` of each text
    """
    visible = np.zeros(len(offsets) - 1, np.bool_)
    for row in range(len(visible)):
        if offsets[row] < offsets[row + 1]:
            byte = data[offsets[row]]
            visible[row] = 32 < byte < 127
    return visible
