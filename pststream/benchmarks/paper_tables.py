"""Render the figures of benchmarks that follow figures of a paper as tables for the results page."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pststream.balancing.cell_selection import METHODS
from pststream.benchmarks.scenarios.answers import topk_planners
from pststream.benchmarks.scenarios.plans import adjust, scalability, standing_planners
from pststream.benchmarks.scenarios.streams import planner_latency
from pststream.generator.draw_subscriptions import KINDS

Format = Callable[[Any], str]
Tables = Iterator[tuple[str, list[tuple[str, ...]]]]
"""A title and the rows of each table."""

METHOD_FIGURES = (
    "select_ms", "select_cells_ms", "estimated_subscriptions", "moved_subscriptions", "moved_bytes", "migrate_seconds",
    "under_2s", "from_2s_to_5s", "over_5s", "before_median_seconds", "median_seconds", "max_seconds",
)  # fmt: skip
LATENCY_FIGURES = ("median_seconds", "p99_seconds", "max_seconds", "batches", "matches_per_object")
WORKER_FIGURES = ("throughput", "max_over_mean", "model_max_over_mean")

UNIT_FIGURES = (
    "throughput", "slowest_us", "total_us", "imbalance", "model_imbalance", "replication", "copies", "plan_seconds",
    "route_us", "pairs",
)  # fmt: skip

STANDING_FIGURES = (
    "made_by", "throughput", "slowest_ms", "total_ms", "imbalance_ms", "imbalance_share", "sent_share",
    "postings_share", "copies", "pieces", "dispatch_ms", "insert_ms", "kernel_and_fold_ms", "changes_per_object",
    "plan_seconds", "model_total_ms", "model_share", "model_correlation",
)  # fmt: skip

ADJUST_FIGURES = ("throughput", "imbalance", "moved_subscriptions", "adjustment_seconds")

TOPK_SWEEPS = {
    "Streams (figure 21, tables 2 and 5)": tuple(f"{name}_" for name in topk_planners.DATA),
    "Number of units (figure 22)": ("units_",),
    "k (figure 23)": ("k_",),
    "Number of subscriptions (figure 24)": ("size_",),
    "Parts of the first level (figures 25 and 26)": ("first_",),
}
"""Titles of tables, and how the names of their rows begin."""


def render_methods(figures: dict[str, Any], shown: Format) -> Tables:
    """Yield the figures of each method of selection (12 to 15)."""
    cells = f"{shown(figures['blocks'])} blocks, {shown(figures['cells'])} raster cells with load"
    rows = {method: method for method in METHODS}
    yield f"{figures['workload']}; {cells}", _rows(figures, "method", rows, METHOD_FIGURES, shown)


def render_latency(figures: dict[str, Any], shown: Format) -> Tables:
    """Yield the delays of each planner by workload (8)."""
    for kind in KINDS:
        rows = {planner: f"{kind}_{planner}" for planner in planner_latency.PLANNERS}
        yield figures[f"{kind}_workload"], _rows(figures, "planner", rows, LATENCY_FIGURES, shown)


def render_scalability(figures: dict[str, Any], shown: Format) -> Tables:
    """Yield the throughput of each planner by workers, for each workload that is there (11)."""
    for kind in scalability.WORKLOADS:
        if f"{kind}_workload" in figures:
            rows = {
                f"{planner}, {workers} workers": f"{kind}_{planner}_{workers}_workers"
                for planner in scalability.PLANNERS
                for workers in scalability.NUMBERS
            }
            yield figures[f"{kind}_workload"], _rows(figures, "planner", rows, WORKER_FIGURES, shown)


def render_adjust(figures: dict[str, Any], shown: Format) -> Tables:
    """Yield the figures of each balancer after each imbalance (SSTD, 14 and 15; Tornado, 13)."""
    for name, case in adjust.IMBALANCES.items():
        rows = {method: f"{name}_{method}" for method in ("none", *case.methods)}
        yield f"`{name}`", _rows(figures, "balancer", rows, ADJUST_FIGURES, shown)


def render_standing_planners(figures: dict[str, Any], shown: Format) -> Tables:
    """Yield the figures of each planner on standing queries, by workload (DkM-SKS, tables 2 and 3)."""
    for name, (_, _, planners) in standing_planners.WORKLOADS.items():
        rows = {planner: f"{name}_{planner}" for planner in planners}
        ratio = shown(figures[f"{name}_auto_over_best"])
        title = f"`{name}`; slowest ms of `auto` over the best other planner: {ratio}"
        yield title, _rows(figures, "planner", rows, STANDING_FIGURES, shown)


def render_topk_planners(figures: dict[str, Any], shown: Format) -> Tables:
    """Yield the figures of each planner of `topk` by stream and sweep (Skype, 21 to 26)."""
    measured = [name.removesuffix("_throughput") for name in figures if name.endswith("_throughput")]
    for title, beginnings in TOPK_SWEEPS.items():
        rows = {prefix: prefix for prefix in measured if prefix.startswith(beginnings)}
        yield title, _rows(figures, "planner", rows, UNIT_FIGURES, shown)


def _rows(
    figures: dict[str, Any], title: str, prefixes: dict[str, str], names: Sequence[str], shown: Format
) -> list[tuple[str, ...]]:
    """Return a row for each label, of the figures with its prefix; names that no figure has are left out."""
    there = [name for name in names if any(f"{prefix}_{name}" in figures for prefix in prefixes.values())]
    rows: list[tuple[str, ...]] = [(title, *(name.replace("_", " ") for name in there)), ("---",) * (len(there) + 1)]
    for label, prefix in prefixes.items():
        rows.append((label, *(shown(figures.get(f"{prefix}_{name}")) for name in there)))
    return rows
