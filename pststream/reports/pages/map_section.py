"""Prepare the texts around the map of a plan on a page: the note above it and the legend below it."""

from pststream.base.format_values import counted
from pststream.reports.plots.plan_map import COLOURS, worker_style
from pststream.reports.reading.plan_view import PlanView

LegendItem = tuple[str, str]
"""The CSS class of a swatch, and its meaning."""

CITIES: LegendItem = ("dot city-dot", "cities, as the base map")


def describe_plan(view: PlanView | None) -> str:
    """What the map shows, in a few sentences."""
    if view is None:
        return "There is no plan yet. The map shows cities and objects only."
    plan = view.plan
    text = (
        f"Plan {view.version} by {view.row['planner']}: {counted(plan.leaves, 'leaf', 'leaves')}"
        f" ({plan.sharing}) over {plan.grid.columns} × {plan.grid.rows} cells, served by"
        f" {counted(plan.workers, 'worker')}. The numbers on the map are those of the workers."
    )
    if (older := view.row["retiring_version"]) is not None:
        text += (
            f" Plan {older} is being retired: it still serves the subscriptions that were inserted before plan"
            f" {view.version}. Objects go to the workers of both plans."
        )
    return text


def sampled(count: int, singular: str, plural: str = "") -> str:
    """Return the legend text of dots that are a sample: their number and noun."""
    return f"{counted(count, singular, plural)} (a sample)"


def worker_items(workers: int, shared: bool) -> list[LegendItem]:
    """The legend of the workers' colours, and of cells that several workers share."""
    items = [(worker_style(worker), f"worker {worker}") for worker in range(min(workers, COLOURS))]
    if workers > COLOURS:
        items.append((worker_style(0), f"colours repeat after worker {COLOURS - 1}"))
    if shared:
        items.append((worker_style(-1), "several workers, by text, object or subscription"))
    return items


def plan_items(view: PlanView | None) -> list[LegendItem]:
    """The legend of a plan; empty if there is no plan."""
    return [] if view is None else worker_items(view.plan.workers, bool((view.plan.leaf_unit < 0).any()))
