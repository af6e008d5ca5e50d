"""Render the results page from JSON documents of benchmarks: `python -m pststream.benchmarks.results_page DIR`.

Each document (JSON) was printed by `pststream bench run NAME --scale SCALE --seed SEED --json --out DIR/NAME.json`. The
page lists the command, the machine and every figure with its target, met or missed.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pststream.benchmarks.model_tables import render_paper_model, render_planner_options
from pststream.benchmarks.paper_comparison import FIGURES_OF_PAPER, HEAD, REASONS
from pststream.benchmarks.scenarios.plans.planners import FIGURES
from pststream.names import PLANNERS

PAGE = "README.md"
COMPARED = "_hybrid_over_best"
INTRO = """\
# Results

The command above each table printed its figures, on the machine named there; `make results` runs all
commands again and renders this page. Missed targets are marked.
"""

MODEL_TABLES = {"paper-model": render_paper_model, "planner-options": render_planner_options}
"""The benchmarks whose figures have a spread, and what renders them."""

PAPER_RATIOS = (
    ("6", "q1", "throughput", "grid", "frequency", "2.09"),
    ("6", "q2", "throughput", "metric", "r_tree", "1.47"),
    ("7a", "q1", "throughput", "hybrid", "kd_tree", "slightly above 1"),
    ("7a", "q1", "throughput", "hybrid", "metric", "much above 1"),
    ("7b", "q2", "throughput", "hybrid", "kd_tree", "above 1"),
    ("7b", "q2", "throughput", "hybrid", "metric", "about 1"),
    ("7c", "q3", "throughput", "hybrid", "kd_tree", "1.30"),
    ("7c", "q3", "throughput", "hybrid", "metric", "1.30"),
    *(("9", kind, "dispatch_bytes", "hybrid", "kd_tree", "above 1") for kind in ("q1", "q2", "q3")),
    *(("9", kind, "dispatch_bytes", "hybrid", "metric", "above 1") for kind in ("q1", "q2", "q3")),
    *(("10", kind, "worker_bytes", "hybrid", "kd_tree", "below 1 mostly") for kind in ("q1", "q2", "q3")),
    *(("10", kind, "worker_bytes", "hybrid", "metric", "below 1 mostly") for kind in ("q1", "q2", "q3")),
    *(("10", kind, "subscriptions_stored", "hybrid", "kd_tree", "below 1 mostly") for kind in ("q1", "q2", "q3")),
    *(("10", kind, "subscriptions_stored", "hybrid", "metric", "below 1 mostly") for kind in ("q1", "q2", "q3")),
)
"""Figure of the paper, workload, figure compared, planner, planner it is compared with, value in the paper."""


def render(documents: list[dict[str, Any]]) -> str:
    """Render the page of these documents, in the order of their names."""
    parts = [INTRO]
    for document in sorted(documents, key=lambda d: d["name"]):
        compared = any(name.endswith(COMPARED) for name in document["figures"])
        if document["name"] in MODEL_TABLES:
            shown = _model_tables(document)
        else:
            shown = _planners_tables(document) if compared else _figures_table(document)
        parts.append(f"{_heading(document)}\n{shown}")
    titles, *rows = FIGURES_OF_PAPER
    return "\n".join([*parts, HEAD, _table([titles, ("---",) * len(titles), *rows]), REASONS])


def _heading(document: dict[str, Any]) -> str:
    name, machine = document["name"], document["machine"]
    command = f"pststream bench run {name} --scale {document['scale']} --seed {document['seed']} --json"
    where = f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['processor']}, Python {machine['python']}"
    if "random_read_ns" in machine:
        where += f", {machine['random_read_ns']} ns per random read"
    if "load_average" in machine:
        where += f", load average {machine['load_average']:.1f} at the end"
    return f"## {name}\n\n```bash\n{command}\n```\n\n{where}; {document['seconds']:.0f} s.\n"


def _figures_table(document: dict[str, Any]) -> str:
    rows = [("figure", "value", "target"), ("---", "---", "---")]
    for name, value in document["figures"].items():
        target = document["targets"].get(name)
        rows.append((f"`{name}`", _format_value(value), _target(target)))
    rows += [(f"baseline: `{name}`", _format_value(value), "") for name, value in document["floor"].items()]
    rows += [
        (f"`{name}`", "", _target(target))
        for name, target in document["targets"].items()
        if name not in document["figures"]
    ]
    return _table(rows)


def _planners_tables(document: dict[str, Any]) -> str:
    figures, targets = document["figures"], document["targets"]
    sizes = [f"{figures[name]:,} {name}" for name in ("subscriptions", "objects", "workers") if name in figures]
    parts = [f"{', '.join(sizes)}.\n"]
    for workload in (name.removesuffix(COMPARED) for name in figures if name.endswith(COMPARED)):
        ratio = figures[f"{workload}{COMPARED}"]
        there = [name for name in PLANNERS if f"{workload}_{name}_throughput" in figures]
        shown = [figure for figure in FIGURES if all(f"{workload}_{name}_{figure}" in figures for name in there)]
        rows = [("planner", *(name.replace("_", " ") for name in shown)), ("---",) * (len(shown) + 1)]
        ranked = sorted(there, key=lambda name: -figures[f"{workload}_{name}_throughput"])
        rows += [
            (name, *(_format_value(figures[f"{workload}_{name}_{figure}"]) for figure in shown)) for name in ranked
        ]
        target = _target(targets.get(f"{workload}{COMPARED}"))
        model = [figures[f"{workload}_model_{figure}"] for figure in ("correlation", "over_measured")]
        wanted = _target(targets.get(f"{workload}_model_correlation"))
        parts.append(
            f"### {workload}: {figures[f'{workload}_matches_per_object']} matches per object\n\n"
            f"{_workload(figures, workload)}{_table(rows)}\n"
            f"`hybrid` over the best other planner: {ratio}{f' (target: {target})' if target else ''}\n\n"
            f"{_auto_line(figures, targets, f'{workload}_auto_over_best')}"
            f"Model and measurement, over the workers of all plans: correlation {model[0]}"
            f"{f' (target: {wanted})' if wanted else ''}, total {model[1]} of the measured one\n"
        )
    if document["name"] == "planners":
        parts.append(_compare_with_paper(figures))
    return "\n".join(parts)


def _auto_line(figures: dict[str, Any], targets: dict[str, Any], name: str) -> str:
    """Return a line on the planner `auto`; empty if it was not measured."""
    if name not in figures:
        return ""
    target = _target(targets.get(name))
    return f"`auto` over the best single planner: {figures[name]}{f' (target: {target})' if target else ''}\n\n"


def _workload(figures: dict[str, Any], workload: str) -> str:
    """Return a paragraph that says the workload in full; earlier versions did not write it."""
    text = figures.get(f"{workload}_workload")
    return f"{text}.\n\n" if text else ""


def _model_tables(document: dict[str, Any]) -> str:
    """Return the tables of a benchmark whose figures are lists of a median and its spread."""
    figures = document["figures"]
    sizes = [f"{figures[name]:,} {name}" for name in ("subscriptions", "objects", "workers", "seeds")]
    tables = [f"### {title}\n\n{_table(rows)}" for title, rows in MODEL_TABLES[document["name"]](figures)]
    return "\n".join([f"{', '.join(sizes)}.\n", *tables])


def _compare_with_paper(figures: dict[str, Any]) -> str:
    """Compare the ratios in the paper with those measured here."""
    rows = [("figure", "workload", "ratio of", "planners", "paper", "here"), ("---",) * 6]
    for figure, workload, compared, one, other, paper in PAPER_RATIOS:
        if f"{workload}_{one}_{compared}" not in figures:
            continue
        here = figures[f"{workload}_{one}_{compared}"] / figures[f"{workload}_{other}_{compared}"]
        rows.append((figure, workload, compared.replace("_", " "), f"{one} over {other}", paper, f"{here:.2f}"))
    return f"### Comparison with the paper's figures 6, 7, 9 and 10 (11: `scalability`)\n\n{_table(rows)}"


def _target(target: dict[str, Any] | None) -> str:
    return "" if target is None else f"{_format_value(target['target'])}: {'met' if target['met'] else '**missed**'}"


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float) and 0 < abs(value) < 0.001:
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def write_page(folder: Path) -> str:
    """Write the page of all documents of a folder into it; return its text."""
    page = render([json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))])
    (folder / PAGE).write_text(page, "utf-8")
    return page


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
