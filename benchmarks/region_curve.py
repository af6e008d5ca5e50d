"""Compute how many standing regions a step of `frequent_terms` can serve, from the figures of `frequent-terms`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

STEP_SECONDS = {"1h": 3_600, "10m": 600, "1m": 60}
"""Length of each step."""


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
