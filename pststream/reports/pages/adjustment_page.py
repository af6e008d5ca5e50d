"""A page on one adjustment of the plan, proposed or applied: what moves, what that costs, what it gains."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np

from pststream.domain.plan import PartitionPlan
from pststream.format_values import counted, moment, percent, short, whole
from pststream.reports.pages.html_document import whole_page
from pststream.reports.plots.html import Markup, element, joined
from pststream.reports.plots.plan_map import (
    COLOURS,
    base_layers,
    colour_of,
    drawing,
    map_tools,
    outlines,
    shapes_of,
    worker_names,
)
from pststream.reports.plots.projection import Projection, view_of
from pststream.reports.plots.served_cells import BY_TEXT, Change, change_between

MINUS = "\N{MINUS SIGN}"
_MOST_ROWS = 40
_KINDS = {
    "local": "Load adjustment",
    "global": "Repartition",
    "retire": "Retirement of the old plan",
    "undo": "Adjustment taken back",
}
_REASONS = {
    "split": "split by text",
    "merge": "joined with its twin",
    "gr": "selected by GR",
    "dp": "selected by DP",
    "si": "selected by SI",
    "ra": "selected by RA",
}


def write_adjustment(
    path: Path, home: str, document: dict[str, Any], before: PartitionPlan, after: PartitionPlan
) -> None:
    """Write the page. `document`: what `balance` prints; before, after: the plans it speaks of."""
    change = change_between(before, after)
    title = _KINDS[document["kind"]]
    page = whole_page(
        f"PSTStream: {title.lower()}",
        element("a", "Skip to the map", href="#at-map", class_="skip"),
        _header(title, home, document, change),
        element(
            "main",
            _section("loads", "Load of each worker", loads_table(document["load_before"], document["load_after"])),
            _section("map", "What moves", *_map(after, change)),
            _section("moves", "Moves", _moves(document, change)),
        ),
        element(
            "footer", f"Made by pststream balance at {moment(dt.datetime.now(dt.UTC))} UTC. This file loads nothing."
        ),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, "utf-8")


def _section(name: str, title: str, *content: Markup | None) -> Markup:
    return element("section", element("h2", title, id=f"at-{name}"), *content, aria_labelledby=f"at-{name}")


def _header(title: str, home: str, document: dict[str, Any], change: Change) -> Markup:
    old, new = document["plan_version_before"], document["plan_version_after"]
    state = "proposed, nothing changed yet" if document["dry_run"] else "applied"
    return element(
        "header",
        element("h1", f"{title}: plan {old} to {new}"),
        element("p", f"{state} · {home}", class_="quiet"),
        element("p", f"{document['reason'][:1].upper()}{document['reason'][1:]}.", class_="why"),
        element("dl", _tiles(document, change), class_="tiles"),
    )


def _tiles(document: dict[str, Any], change: Change) -> list[Markup]:
    before, after = (np.array(document[f"load_{when}"]) for when in ("before", "after"))
    moved = int(change.changed.sum())
    facts = [
        ("Expected gain", percent(document["expected_gain"]), "less load on the most loaded worker"),
        ("Imbalance", f"{_imbalance(before)} → {_imbalance(after)}", "greatest load over least, predicted"),
        ("Measured before", f"{document['measured_imbalance']:.3g}", "greatest CPU time over least"),
        ("Subscriptions", whole(document["moved_subscriptions"]), "index rows that change worker"),
        ("Bytes", short(document["moved_bytes"]), "of these rows, about"),
        ("Cells", whole(moved), f"of the {whole(len(change.changed))} of the raster"),
    ]
    return [
        element("div", element("dt", name), element("dd", value), element("dd", more)) for name, value, more in facts
    ]


def _imbalance(loads: np.ndarray) -> str:
    return f"{loads.max() / loads.min():.3g}" if loads.min() > 0 else "∞"


def loads_table(before: list[float], after: list[float], label: str = "Load of each worker, as bars") -> Markup:
    """The load of each worker before and after, with bars."""
    most, mean = max([*before, *after, 0.0]) or 1.0, sum(before) / len(before) or 1.0
    head = [element("th", name, scope="col") for name in ("Worker", "Before", "After", "Change")]
    rows = []
    for worker, (old, new) in enumerate(zip(before, after)):
        swatch = element("span", class_=f"swatch w{worker % COLOURS}", aria_hidden="true")
        rows.append(
            element(
                "tr",
                element("th", swatch, f"Worker {worker}", scope="row"),
                _bar("Before", old / mean, old / most, "was"),
                _bar("After", new / mean, new / most, f"w{worker % COLOURS}"),
                element("td", element("span", _difference(old, new), class_="value"), data_label="Change"),
            )
        )
    note = "Load of Definition 1 on the recent sample; 1 is the mean of all workers before."
    table = element("table", element("thead", element("tr", head)), element("tbody", rows), class_="balance")
    return joined(element("p", note, class_="note"), _scrolled(label, table))


def _bar(title: str, value: float, part: float, colour: str) -> Markup:
    bar = element("span", class_=f"bar {colour}", style=f"--part:{100 * part:.1f}%", aria_hidden="true")
    return element("td", element("span", f"{value:.2f}", class_="value"), bar, data_label=title)


def _difference(old: float, new: float) -> str:
    if old == new:
        return "–"
    return f"{'+' if new > old else MINUS}{percent(abs(new / old - 1))}" if old > 0 else "new"


def _map(after: PartitionPlan, change: Change) -> tuple[Markup, ...]:
    grid = after.grid
    projection = view_of(np.array([grid.west, grid.east]), np.array([grid.south, grid.north]))
    layers = joined(
        base_layers(projection),
        _standing(after, change, projection),
        _moving(after, change, projection),
    )
    tools = map_tools([("moving", "What moves"), ("standing", "Plan before")])
    svg = drawing(layers, projection, "Map of the cells that change worker")
    note = "Filled cells change hands, in the colour of who takes them; numbers name it. Pale: the plan before."
    return element("p", note, class_="note"), element("div", tools, svg, _legend(after, change), class_="card")


def _standing(plan: PartitionPlan, change: Change, projection: Projection) -> Markup:
    """The plan before, one path each worker."""
    values, corners = _shapes(change.before, plan, projection)
    paths = [
        element("path", class_=f"leaf {colour_of(worker)}", d=shape, data_tip=f"{_name(worker)}, stays")
        for worker, shape in outlines(values, corners)
    ]
    return element("g", paths, class_="standing")


def _moving(plan: PartitionPlan, change: Change, projection: Projection) -> Markup | None:
    """The cells that change hands, one path for each pair of workers."""
    if not change.changed.any():
        return None
    wide = max(int(change.before.max()), int(change.after.max())) + 2
    pair = (change.before + 1) * wide + change.after + 1
    values, corners = _shapes(np.where(change.changed, pair, -1), plan, projection)
    paths = []
    for value, shape in outlines(values, corners):
        if value >= 0:
            old, new = value // wide - 1, value % wide - 1
            paths.append(element("path", class_=f"leaf {colour_of(new)}", d=shape, data_tip=_hands(old, new)))
    takers = np.where(values >= 0, values % wide - 1, BY_TEXT)
    return element("g", paths, worker_names(takers, corners), class_="moving")


def _shapes(raster: np.ndarray, plan: PartitionPlan, projection: Projection) -> tuple[np.ndarray, np.ndarray]:
    return shapes_of(raster.reshape(plan.grid.rows, plan.grid.columns), plan.grid, projection)


def _name(worker: int) -> str:
    return f"Worker {worker}" if worker >= 0 else "Several workers, by text"


def _hands(old: int, new: int) -> str:
    if old == new:
        return "Shared by text, its words are shared anew"
    whence, whither = (f"worker {w}" if w >= 0 else "several by text" for w in (old, new))
    return f"From {whence} to {whither}"


def _legend(plan: PartitionPlan, change: Change) -> Markup:
    items = [(colour_of(worker), f"worker {worker}") for worker in range(min(plan.workers, COLOURS))]
    if plan.workers > COLOURS:
        items.append(("w0", f"colours repeat after worker {COLOURS - 1}"))
    if (change.after == BY_TEXT).any():
        items.append(("by-text", "by text: several workers"))
    items.append(("dot city-dot", "cities, as the base map"))
    shown = [element("li", element("span", class_=f"swatch {name}", aria_hidden="true"), text) for name, text in items]
    return element("ul", shown, class_="legend")


def _moves(document: dict[str, Any], change: Change) -> Markup:
    """The moves as they were decided; where that is all at once, what changes hands between each two workers."""
    told = [
        (_what(move), _worker(move["origin"]), _worker(move["target"]), _REASONS.get(move["reason"], move["reason"]))
        for move in document["moves"]
        if move["origin"] >= 0
    ] or _pairs(change)
    head = element("tr", [element("th", name, scope="col") for name in ("What", "From", "To", "Why")])
    rows = [
        element("tr", [element("td", text, data_label=name) for name, text in zip(("What", "From", "To", "Why"), row)])
        for row in told[:_MOST_ROWS]
    ]
    more = len(told) - len(rows)
    note = element("p", f"and {counted(more, 'move')} more", class_="note") if more > 0 else None
    table = element("table", element("thead", head), element("tbody", rows), class_="moves")
    return joined(_scrolled("Moves", table), note)


def _what(move: dict[str, Any]) -> str:
    cells = counted(move["cells"], "cell")
    return cells if move["terms"] is None else f"{counted(move['terms'], 'term')} of {cells}"


def _worker(number: int) -> str:
    return f"worker {number}" if number >= 0 else "several"


def _pairs(change: Change) -> list[tuple[str, str, str, str]]:
    pairs = np.column_stack([change.before, change.after])[change.changed]
    found, cells = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-cells, kind="stable")
    return [
        (counted(int(cells[i]), "cell"), _worker(int(found[i, 0])), _worker(int(found[i, 1])), "new partitioning")
        for i in order.tolist()
    ]


def _scrolled(label: str, table: Markup) -> Markup:
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)
