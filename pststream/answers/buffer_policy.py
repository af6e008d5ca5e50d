"""Choose how many entries the buffer of a subscription with a window keeps at an evaluation.

No choice changes an answer. A buffer with more entries runs dry less often, but more objects enter it. The number is
spread by the key, so that buffers that are made together do not run dry together. The benchmark `topk` compares it with
the policies of Skype and its peers.

Source: Skype, section 6. Departures:

- The buffers are plain ones, without the counters of dominance that remove an entry when `k` newer and better ones are
  in it. By Theorem 6 they run dry as often, and a late object, which newer ones may dominate at once, needs no count.
- The threshold rises at each cut of a buffer, to its last entry (`fold`). In the paper it stays until the next
  evaluation.
"""

import numpy as np

SPREAD = 0.2
"""Greatest share by which the number departs from the one that is given."""

MOST_TIMES_K = 3
"""A buffer has room for so many times k: 60 of k = 20, the best size of Skype's peer `kmax`."""


def spread_kept(keys: np.ndarray, k: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return numbers around `kept`, by the key alone and evenly spread: int32[n], at least k."""
    # Bits of the product with an odd number that has no pattern; neighbouring keys differ in all of them.
    hashed = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    share = hashed / float(1 << 24) * 2 - 1
    return np.maximum(np.rint(kept * (1 + SPREAD * share)), k).astype(np.int32)
