"""Divide the terms of a segment into tiers by their number of objects, and choose those that a count can leave out.

Terms are numbered tier by tier, those of many objects first: so their counts lie close together in memory.
"""

from pststream.kernels.compile import kernel

LEAST_OBJECTS = (2048, 512, 128, 32, 8)
"""Objects that each term of a tier has at least; one more tier has the other terms."""


@kernel
def terms_to_count(tiers, rare):
    """Return the number of terms to count, and the greatest number of objects that another term has: at most `rare`.

    tiers  int64[t+1]: tier i has the terms from tiers[i] up to tiers[i + 1]
    """
    for tier in range(len(LEAST_OBJECTS)):
        if LEAST_OBJECTS[tier] - 1 <= rare:
            return tiers[tier + 1], LEAST_OBJECTS[tier] - 1
    return tiers[-1], 0
