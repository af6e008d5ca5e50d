"""Write the HTML page of one adjustment of the plan, proposed or applied: what moves, its cost, its expected gain."""

from typing import Any, NamedTuple

import numpy as np

from pststream.base.texts import counted
from pststream.base.utc_times import utc_now
from pststream.plans.imbalance import imbalance_of, imbalance_text
from pststream.plans.plan import PartitionPlan
from pststream.reports.pages.plan_sections import CITIES, compare_loads, worker_items
from pststream.reports.pages.render_page import render_page
from pststream.reports.plots.base_map import Projection, draw_base_map, fit_view
from pststream.reports.plots.plan_map import (
    BY_TEXT,
    MapArea,
    MapLayer,
    PlanChange,
    compare_cells,
    cover_raster,
    label_workers,
    outline_values,
    worker_style,
)
from pststream.storage.registry import Address, file_at

_MAX_MOVES = 40
_KINDS = {
    "local": "Load adjustment",
    "global": "Repartition",
    "retire": "Retirement of the old plan",
    "undo": "Adjustment reverted",
    "plan": "Another number of workers",
}
_REASONS = {
    "split": "split by text",
    "merge": "merged with its twin",
    "gr": "selected by GR",
    "dp": "selected by DP",
    "si": "selected by SI",
    "ra": "selected by RA",
    "split_merge": "split and merge",
    "shift": "shifted across a side",
    "corner_shift": "shifted at a corner",
    "pm": "reallocated by PM",
    "fm": "reallocated by FM",
}


class MoveRow(NamedTuple):
    """A move from one worker to another as texts: what moves, both workers, and the reason."""

    what: str
    origin: str
    target: str
    why: str


def write_adjustment(
    path: Address, home: str, document: dict[str, Any], before: PartitionPlan, after: PartitionPlan
) -> None:
    """Write the page.

    document: the result of `pststream balance`; before, after: the plans before and after the adjustment
    """
    change, grid = compare_cells(before, after), after.grid
    projection = fit_view(np.array([grid.west, grid.east]), np.array([grid.south, grid.north]))
    # The earlier plan in pale colours, and on it the cells that change worker.
    layers = {
        "base": draw_base_map(projection),
        "standing": _draw_standing(after, change, projection),
        "moving": _draw_moving(after, change, projection) if change.changed.any() else None,
    }
    moves = _decided_moves(document) or _moves_of_cells(change)
    loads = np.array(document["load_before"]), np.array(document["load_after"])
    page = render_page(
        "adjustment.html",
        title=_KINDS[document["kind"]],
        home=home,
        document=document,
        made_at=utc_now(),
        changed_cells=int(change.changed.sum()),
        cells=len(change.changed),
        imbalance=" → ".join(imbalance_text(imbalance_of(one)) for one in loads),
        loads=compare_loads(document["load_before"], document["load_after"]),
        map=layers,
        legend=[*worker_items(after.workers, bool((change.after == BY_TEXT).any())), CITIES],
        moves=moves[:_MAX_MOVES],
        more_moves=max(len(moves) - _MAX_MOVES, 0),
    )
    files, name = file_at(path)
    files.write(name, page.encode())


def _draw_standing(plan: PartitionPlan, change: PlanChange, projection: Projection) -> MapLayer:
    """The plan before, one area for each worker."""
    values, corners = _cover(change.before, plan, projection)
    areas = [
        MapArea(worker_style(worker), path, f"{_worker(worker, 'Several workers').capitalize()}, stays")
        for worker, path in outline_values(values, corners)
    ]
    return MapLayer(areas, [])


def _draw_moving(plan: PartitionPlan, change: PlanChange, projection: Projection) -> MapLayer:
    """The cells that change worker, one area for each pair of workers."""
    base = max(int(change.before.max()), int(change.after.max())) + 2
    pair = (change.before + 1) * base + change.after + 1
    values, corners = _cover(np.where(change.changed, pair, -1), plan, projection)
    areas = []
    for value, path in outline_values(values, corners):
        if value >= 0:
            old, new = value // base - 1, value % base - 1
            areas.append(MapArea(worker_style(new), path, _describe_change(old, new)))
    targets = np.where(values >= 0, values % base - 1, BY_TEXT)
    return MapLayer(areas, label_workers(targets, corners))


def _cover(raster: np.ndarray, plan: PartitionPlan, projection: Projection) -> tuple[np.ndarray, np.ndarray]:
    return cover_raster(raster.reshape(plan.grid.rows, plan.grid.columns), plan.grid, projection)


def _describe_change(old: int, new: int) -> str:
    if old == new:
        return "Several workers: some terms or subscriptions change worker"
    return f"From {_worker(old, 'several workers')} to {_worker(new, 'several workers')}"


def _decided_moves(document: dict[str, Any]) -> list[MoveRow]:
    """Return the moves that were decided; none for a repartitioning, which moves everything at once."""
    rows = []
    for move in document["moves"]:
        if move["origin"] >= 0:
            terms = "" if move["terms"] is None else f"{counted(move['terms'], 'term')} of "
            what, why = f"{terms}{counted(move['cells'], 'cell')}", _REASONS.get(move["reason"], move["reason"])
            rows.append(MoveRow(what, _worker(move["origin"]), _worker(move["target"]), why))
    return rows


def _worker(worker: int, several: str = "several") -> str:
    return f"worker {worker}" if worker >= 0 else several


def _moves_of_cells(change: PlanChange) -> list[MoveRow]:
    """Count the cells that go from each worker to each other worker, the most cells first."""
    pairs = np.column_stack([change.before, change.after])[change.changed]
    workers, cells = np.unique(pairs, axis=0, return_counts=True)
    return [
        MoveRow(counted(int(cells[i]), "cell"), _worker(int(workers[i, 0])), _worker(int(workers[i, 1])), "new plan")
        for i in np.argsort(-cells, kind="stable").tolist()
    ]
