"""Render the figures of the benchmark `planner-sweeps` as tables for the results page."""

from collections.abc import Callable, Iterator
from typing import Any

from pststream.benchmarks.merge_seeds import middle_of
from pststream.benchmarks.scenarios.plans import planner_sweeps
from pststream.benchmarks.support.sweeps import sstd, tornado

TITLES = {"tornado": "Tornado", "sstd": "SSTD"}
RATIOS = {"tornado": tornado.RATIOS, "sstd": sstd.RATIOS}

Rows = list[tuple[str, ...]]


def render_sweeps(figures: dict[str, Any], shown: Callable[[Any], str]) -> Iterator[tuple[str, Rows]]:
    """Yield, for each paper that was measured, a table of all points and one of the ratios that the paper reports."""
    for paper in planner_sweeps.SWEEPS:
        names = [(f"{point}, {planner}", f"{paper}_{point}_{planner}") for point, planner in _list_measured(paper)]
        there = [(label, prefix) for label, prefix in names if f"{prefix}_throughput" in figures]
        if there:
            titles = [name.replace("_", " ") for name in planner_sweeps.FIGURES]
            rows: Rows = [("point, planner", *titles), ("---",) * (len(titles) + 1)]
            for label, prefix in there:
                rows.append((label, *(shown(figures[f"{prefix}_{name}"]) for name in planner_sweeps.FIGURES)))
            yield f"The sweeps of {TITLES[paper]}", rows
            yield f"Ratios that {TITLES[paper]} reports", _ratios(paper, figures)


def _list_measured(paper: str) -> list[tuple[str, str]]:
    """Return the points of the sweeps of a paper, with each planner that is measured there."""
    trials = [item for workload in planner_sweeps.SWEEPS[paper]() for item in workload.trials.items()]
    return [(point, planner) for point, trial in trials for planner in trial.planners]


def _ratios(paper: str, figures: dict[str, Any]) -> Rows:
    """Return a row for each ratio of a paper, with the one measured here."""
    rows: Rows = [("figure", "ratio of", "of", "over", "paper", "here"), ("---",) * 6]
    for ratio in RATIOS[paper]:
        one, other = (middle_of(figures[f"{paper}_{name}_{ratio.compared}"]) for name in (ratio.one, ratio.other))
        sides = (name.replace("_", " ") for name in (ratio.compared, ratio.one, ratio.other))
        rows.append((ratio.figure, *sides, ratio.paper, f"{one / other:.2f}"))
    return rows
