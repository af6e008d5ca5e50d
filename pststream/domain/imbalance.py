"""Compute the imbalance of workers, the greatest load over the least, and format it."""

from collections.abc import Iterable

MAX_IMBALANCE = 1e9
"""Upper limit of the imbalance, and the imbalance if a worker has no load."""


def imbalance_of(loads: Iterable[float]) -> float:
    """Return the greatest load over the least, at most MAX_IMBALANCE; 1 if no worker has load."""
    listed = [float(load) for load in loads]
    greatest, least = max(listed, default=0.0), min(listed, default=0.0)
    if greatest <= 0.0:
        return 1.0
    return min(greatest / least, MAX_IMBALANCE) if least > 0.0 else MAX_IMBALANCE


def imbalance_text(imbalance: float) -> str:
    """Format an imbalance in three digits; ∞ if a worker has no load."""
    return "∞" if imbalance >= MAX_IMBALANCE else f"{imbalance:.3g}"
