"""Compute the imbalance of workers, the greatest load over the least, and format it for JSON and for text."""

from collections.abc import Iterable

MAX_IMBALANCE = 1e9
"""Upper limit of the imbalance, and the imbalance while a worker is idle, which means that it has no load."""


def imbalance_of(loads: Iterable[float]) -> float:
    """Return the greatest load over the least, at most MAX_IMBALANCE; 1 if no worker has load."""
    listed = [float(load) for load in loads]
    greatest, least = max(listed, default=0.0), min(listed, default=0.0)
    if greatest <= 0.0:
        return 1.0
    return min(greatest / least, MAX_IMBALANCE) if least > 0.0 else MAX_IMBALANCE


def finite_imbalance(imbalance: float) -> float | None:
    """Return a measured imbalance as JSON has it: with four digits after the point, None while a worker is idle."""
    return None if imbalance >= MAX_IMBALANCE else round(imbalance, 4)


def imbalance_text(imbalance: float | None) -> str:
    """Format an imbalance, also one from JSON, in three digits; in words while a worker is idle."""
    if imbalance is None or imbalance >= MAX_IMBALANCE:
        return "infinite (idle worker)"
    return f"{imbalance:.3g}"
