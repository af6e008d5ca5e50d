"""Name the engines that a benchmark compares, and put their figures side by side."""

from collections.abc import Mapping
from typing import Any

ENGINES = ("auto", "local", "spark")


def side_by_side(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of each engine as one dictionary: those of `auto` under their names, the others with suffix.

    For example {"auto": {"seconds": 1.0}, "spark": {"seconds": 2.0}} gives {"seconds": 1.0, "seconds_spark": 2.0}.
    """
    return {
        name if engine == "auto" else f"{name}_{engine}": figure
        for engine, of_engine in figures.items()
        for name, figure in of_engine.items()
    }
