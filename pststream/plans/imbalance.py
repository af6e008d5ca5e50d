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


def finite_imbalance(imbalance: float, digits: int | None = 4) -> float | None:
    """Return an imbalance as JSON has it: None while a worker is idle; digits: how many after the point, None: all."""
    if imbalance >= MAX_IMBALANCE:
        return None
    return imbalance if digits is None else round(imbalance, digits)


def read_imbalance(imbalance: float | None) -> float:
    """Return an imbalance from JSON as a number to compare: MAX_IMBALANCE for None."""
    return MAX_IMBALANCE if imbalance is None else imbalance


def imbalance_text(imbalance: float | None) -> str:
    """Format an imbalance, also one from JSON, in three digits; in words while a worker is idle."""
    if imbalance is None or imbalance >= MAX_IMBALANCE:
        return "infinite (idle worker)"
    return f"{imbalance:.3g}"
