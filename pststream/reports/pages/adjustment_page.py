"""Write the HTML pages of changes of the plan: of an adjustment, of `plans compare --out` and of `replay --page`.

An adjustment, proposed or applied: what moves, its cost, its expected gain. The others: throughput, worker loads, all
figures.
"""

from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.texts import counted
from pststream.base.utc_times import utc_now
from pststream.plans.imbalance import imbalance_of, imbalance_text
from pststream.plans.plan import PartitionPlan
from pststream.reports.commands.comparisons import (
    COLUMNS,
    describe_best,
    describe_differences,
    describe_head,
    describe_matches,
    figure_rows,
    format_figure,
)
from pststream.reports.pages.plan_sections import CITIES, balance_units, compare_loads, worker_items
from pststream.reports.pages.render_page import render_page
from pststream.reports.plots.plan_map import (
    BY_TEXT,
    MapArea,
    MapLayer,
    PlanChange,
    Projection,
    compare_cells,
    cover_raster,
    draw_base_map,
    fit_view,
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


def write_comparison(document: dict[str, Any], out: str) -> None:
    """Write the page to the file `out`; `document`: the result of pipeline/replan/compare_planners.py."""
    plans = document["plans"]
    page = render_page(
        "comparison.html",
        document=document,
        verdict=describe_best(document),
        titles=[title for _, title in COLUMNS],
        rows=[[format_figure(figures[key], key) for key, _ in COLUMNS] for figures in plans],
        max_throughput=max(figures["throughput"] for figures in plans) or 1,
        max_seconds=max(seconds for figures in plans for seconds in [0.0, *figures["worker_seconds"]]) or 1.0,
    )
    Path(out).write_text(page, "utf-8")


def write_replay(path: Address, home: str, document: dict[str, Any]) -> None:
    """Write the page; `document`: the result of pipeline/replan/replay.py."""
    was, would_be = (document[side]["worker_seconds"] for side in ("was", "would_be"))
    topk = document.get("topk")
    page = render_page(
        "replay.html",
        home=home,
        head=describe_head(document),
        matches=describe_matches(document),
        differences=describe_differences(document),
        figures=figure_rows(document),
        loads=list(zip_longest(was, would_be, fillvalue=0.0)),
        topk=balance_units(topk) if topk is not None and topk["planner"] != names.BY_BUCKET else None,
        max_seconds=max([*was, *would_be, 0.0]) or 1.0,
        made_at=utc_now(),
    )
    files, name = file_at(path)
    files.write(name, page.encode())
