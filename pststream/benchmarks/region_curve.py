"""Compute how many standing regions a step of `frequent_terms` can serve, from the figures of `frequent-terms`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

STEP_SECONDS = {"1h": 3_600, "10m": 600, "1m": 60}
"""Length of each step."""

HEAD = ("step", "regions", "seconds", "CPU seconds", "half a step, seconds", "regions in half a step")


def regions_in_half(step: str, seconds: Mapping[int, float]) -> int:
    """Return about how many regions have their reports in half a step, by the seconds of measured numbers of regions.

    Interpolates between the measured numbers, and from 0 regions in 0 seconds. The greatest measured number bounds it.
    """
    regions = sorted(seconds)
    known = np.maximum.accumulate([0.0, *(seconds[count] for count in regions)])
    return int(np.interp(STEP_SECONDS[step] / 2, known, [0, *regions]))


def measured_regions(figures: Mapping[str, Any], step: str, figure: str) -> dict[int, float]:
    """Return a figure of a tick of a step by the number of regions, the least first."""
    begin, end = f"step_{step}_{figure}_of_", "_regions"
    others = {name.removeprefix(begin).removesuffix(end): name for name in figures if name.startswith(begin)}
    names = {figures["regions"]: f"step_{step}_{figure}"} | {int(count): name for count, name in others.items()}
    return {count: figures[name] for count, name in sorted(names.items())}


def region_curve(figures: Mapping[str, Any], shown: Callable[[Any], str]) -> list[tuple[str, ...]]:
    """Return the rows of the table of steps and regions; shown: formats a figure."""
    rows: list[tuple[str, ...]] = [HEAD, ("---",) * len(HEAD)]
    for step, length in STEP_SECONDS.items():
        seconds = measured_regions(figures, step, "seconds")
        cpu = measured_regions(figures, step, "cpu_seconds")
        served = regions_in_half(step, seconds)
        text = f"{shown(served)} or more" if served == max(seconds) else f"about {shown(_round(served))}"
        for count in seconds:
            in_half = text if count == max(seconds) else ""
            rows.append((step, *map(shown, (count, seconds[count], cpu[count], length // 2)), in_half))
    return rows


def _round(count: int) -> int:
    """Return a count in two digits."""
    return int(float(f"{count:.1e}"))
