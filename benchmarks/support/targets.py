"""Compare a benchmark's figure with its target: return the target and whether it is met."""

from typing import Any


def at_least(figure: float, target: float) -> dict[str, Any]:
    """Return a target that the figure should reach."""
    return {"target": target, "met": bool(figure >= target)}


def at_most(figure: float, target: float) -> dict[str, Any]:
    """Return a target that the figure should not exceed."""
    return {"target": target, "met": bool(figure <= target)}
