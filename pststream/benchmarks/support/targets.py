"""Targets beside figures."""

from typing import Any


def at_least(figure: float, target: float) -> dict[str, Any]:
    """A target that a figure should reach."""
    return {"target": target, "met": bool(figure >= target)}


def at_most(figure: float, target: float) -> dict[str, Any]:
    """A target that a figure should not pass."""
    return {"target": target, "met": bool(figure <= target)}
