"""Render the figures of the benchmarks `paper-model` and `planner-options` as tables for the results page."""

from collections.abc import Iterator, Sequence
from typing import Any

from pststream.benchmarks.scenarios.plans import paper_model, planner_options

RATIOS = ("hybrid_over_plain_kd_tree", "hybrid_over_metric", "hybrid_over_best", "hybrid_sum_over_best",
          "hybrid_over_best_total", "text_over_space", "text_over_space_total")  # fmt: skip

TITLES = {
    "total": "Sum of the loads, seconds",
    "greatest": "Greatest load, seconds",
    "imbalance": "Greatest load over the least",
}

Rows = list[tuple[str, ...]]


def render_paper_model(figures: dict[str, Any]) -> Iterator[tuple[str, Rows]]:
    """Yield a title and the rows of each table: ratios of planners, then each figure by planner."""
    yield "Ratios: above 1, the first one is better", _by_case(figures, RATIOS)
    for figure, title in TITLES.items():
        yield title, _by_case(figures, [f"{name}_{figure}" for name in paper_model.PLANNERS], f"_{figure}")


def _by_case(figures: dict[str, Any], names: Sequence[str], ending: str = "") -> Rows:
    """Return a row for each workload, with a column for each figure."""
    titles = [name.removesuffix(ending).replace("_", " ") for name in names]
    rows: Rows = [("country", "workload", "vocabulary", "keywords", *titles), ("---",) * (len(names) + 4)]
    for case, (kind, vocabulary, connective, country) in paper_model.list_cases().items():
        values = [figures[f"{case}_{name}"] for name in names]
        rows.append((country, kind, f"{vocabulary:,}", connective, *map(format_spread, values)))
    return rows


def render_planner_options(figures: dict[str, Any]) -> Iterator[tuple[str, Rows]]:
    """Yield a title and the rows of each table: the regions of phase one by delta, then one for each option."""
    deltas = planner_options.OPTIONS["hybrid", "delta"]
    for workload in planner_options.WORKLOADS:
        rows: Rows = [("delta", "regions", "of them by text"), ("---",) * 3]
        rows += [
            (
                f"{delta:g}",
                *(str(figures[f"{workload}_delta_{delta:g}_{name}"]) for name in ("regions", "regions_by_text")),
            )
            for delta in deltas
        ]
        yield f"{workload}: regions of phase one of Algorithm 1", rows
        for (planner, option), values in planner_options.OPTIONS.items():
            rows = [(option, *TITLES.values()), ("---",) * (len(TITLES) + 1)]
            for value in values:
                name = f"{workload}_{planner}_{option}_{value:g}"
                rows.append((f"{value:g}", *(format_spread(figures[f"{name}_{figure}"]) for figure in TITLES)))
            yield f"{workload}: `{option}` of {planner.replace('_', ' ')}", rows


def format_spread(values: Sequence[float]) -> str:
    """Format a median with the least and the greatest value, where they differ."""
    median, least, greatest = values
    return f"{median:.3g}" if least == greatest else f"{median:.3g} ({least:.3g} to {greatest:.3g})"
