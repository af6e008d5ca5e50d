"""Lay out the parts of the space of a plan of `topk` as a layer of a map."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pststream.base.format_values import percent
from pststream.plans.topk_plan import SPACE_FIRST, leaf_boxes
from pststream.reports.plots.plan_map import MapArea, MapLayer, outline_values, worker_style
from pststream.reports.plots.projection import Projection


def draw_topk_parts(plan: Mapping[str, Any], projection: Projection) -> MapLayer | None:
    """Return an area for each part of the space, in the colour of its first unit; None if words are divided first.

    plan  the document of `reports/commands/topk_plan.py`, of another planner than `hash`

    Each run of words of `keyword_first` divides the space by a tree of its own; these parts overlap and are not drawn.
    """
    if plan["way"] != SPACE_FIRST or plan["first"] == 1:
        return None
    west, south, east, north = leaf_boxes(np.array(plan["space_cuts"])).T
    left, top, right, bottom = projection.x(west), projection.y(north), projection.x(east), projection.y(south)
    corners = np.column_stack([left, top, right - left, bottom - top])
    parts = outline_values(np.arange(plan["first"]), corners)
    areas = [MapArea(worker_style(part * plan["second"]), path, _describe_part(plan, part)) for part, path in parts]
    return MapLayer(areas, [])


def _describe_part(plan: Mapping[str, Any], part: int) -> str:
    """The tooltip of a part of the space."""
    units, loads = range(part * plan["second"], (part + 1) * plan["second"]), np.array(plan["unit_loads"])
    named = f"unit {units[0]}" if len(units) == 1 else f"units {units[0]} to {units[-1]}"
    share = percent(loads[units].sum() / (loads.sum() or 1.0))
    return f"Plan of topk, {named}\nPredicted: {share} of the load"
