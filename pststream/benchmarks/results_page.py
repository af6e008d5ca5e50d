"""Render the results page from JSON documents of benchmarks: `python -m pststream.benchmarks.results_page DIR`.

Each document (JSON) was printed by `pststream bench run NAME --scale SCALE --seed SEED --json --out DIR/NAME.json`. The
page lists the command, the machine and every figure with its target, met or missed. Documents of one benchmark with
several seeds (`DIR/NAME-seed-2.json`, for example) are shown together, each figure with its spread.
"""

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pststream.benchmarks.merge_seeds import merge_seeds, middle_of, spread_of
from pststream.benchmarks.model_tables import render_paper_model, render_planner_options
from pststream.benchmarks.paper_tables import (
    render_adjust,
    render_latency,
    render_methods,
    render_scalability,
    render_standing_planners,
    render_topk_planners,
)
from pststream.benchmarks.region_curve import region_curve
from pststream.benchmarks.scenarios.plans.planners import FIGURES
from pststream.benchmarks.sweep_tables import render_sweeps
from pststream.names import PLANNERS

PAGE = "README.md"
COMPARED = "_hybrid_over_best"
INTRO = """\
# Results

The command above each table printed its figures, on the machine named there; `make results` runs all
commands again and renders this page. Missed targets are marked. Where a benchmark ran with several seeds, a figure is
the median of them with the least and the greatest, and a target is met if every seed meets it.

[The systems of the papers](../papers.md) answers each figure of the five papers from these tables;
[Benchmarks](../benchmarks.md) describes the benchmarks and their figures.
"""

MODEL_TABLES = {"paper-model": render_paper_model, "planner-options": render_planner_options}
"""The benchmarks whose figures have a spread, and what renders them."""

PAPER_TABLES = {
    "adjust": render_adjust,
    **{f"balance-methods-{millions}m": render_methods for millions in (1, 5, 10)},
    "planner-latency": render_latency,
    "planner-sweeps": render_sweeps,
    "planners-standing": render_standing_planners,
    "scalability": render_scalability,
    "topk-planners": render_topk_planners,
}
"""The benchmarks that follow figures of a paper, and what renders them."""

SIZES = (
    "subscriptions", "stored_objects", "batch_objects", "objects", "objects_per_second", "workers", "units", "seeds",
)  # fmt: skip

COMPARED_WITH_PAPER = ("paper-job", "paper-job-uk", "planners")
"""Benchmarks whose ratios are compared with the paper's figures 6, 7, 9 and 10."""

_KINDS = ("q1", "q2", "q3")
_AGAINST_KD_TREE = ("slightly above 1", "above 1", "1.30")
_AGAINST_METRIC = ("much above 1", "about 1", "1.30")
_BASELINES = ("plain_kd_tree", "kd_tree", "metric")

PAPER_RATIOS = (
    ("6", "q1", "throughput", "grid", "frequency", "2.09"),
    ("6", "q2", "throughput", "metric", "r_tree", "1.47"),
    *(
        ("7", kind, "throughput", "hybrid", planner, paper)
        for planner, of_paper in zip(_BASELINES, (_AGAINST_KD_TREE, _AGAINST_KD_TREE, _AGAINST_METRIC))
        for kind, paper in zip(_KINDS, of_paper)
    ),
    *(("9", kind, "dispatch_bytes", "hybrid", other, "above 1") for other in _BASELINES for kind in _KINDS),
    *(("10", kind, "worker_bytes", "hybrid", other, "below 1 mostly") for other in _BASELINES for kind in _KINDS),
    *(
        ("10", kind, "subscriptions_stored", "hybrid", other, "below 1 mostly")
        for other in _BASELINES
        for kind in _KINDS
    ),
)
"""Figure of the paper, workload, figure compared, planner, planner it is compared with, value in the paper."""


def render(documents: list[dict[str, Any]]) -> str:
    """Render the page of these documents, in the order of their names."""
    parts = []
    summary: list[tuple[str, ...]] = [("benchmark", "runs", "targets met", "targets missed"), ("---",) * 4]
    in_order = sorted(documents, key=lambda document: (_title(document), document["seed"]))
    for _, group in groupby(in_order, key=_title):
        of_seeds = list(group)
        document = merge_seeds(of_seeds)
        name = document["name"]
        if name in MODEL_TABLES:
            shown = _model_tables(document)
        elif name in PAPER_TABLES:
            shown = _paper_tables(document)
        elif any(figure.endswith(COMPARED) for figure in document["figures"]):
            shown = _planners_tables(document)
        else:
            shown = _figures_table(document)
        if name == "frequent-terms":
            shown = f"{_table(region_curve(document['figures'], _format_value))}\n{shown}"
        ratios = _compare_with_paper(of_seeds) if name in COMPARED_WITH_PAPER else ""
        parts.append("\n".join(filter(None, [_heading(of_seeds), shown, ratios])))
        summary.append(_summary_row(document, len(of_seeds)))
    return "\n".join([INTRO, _table(summary), *parts])


def _summary_row(document: dict[str, Any], seeds: int) -> tuple[str, ...]:
    """Return a row of the summary: benchmark, linked to its tables, number of runs, targets met and missed."""
    met = [target["met"] for target in document["targets"].values()]
    title = _title(document)
    anchor = "".join(sign for sign in title.lower() if sign.isalnum() or sign in " -_").replace(" ", "-")
    return f"[`{title}`](#{anchor})", str(seeds), str(met.count(True) or ""), str(met.count(False) or "")


def _title(document: dict[str, Any]) -> str:
    """Return the name of a benchmark, with the file of its objects if they are not synthetic."""
    objects = document.get("options", {}).get("objects")
    return str(document["name"]) + (f", objects of {objects}" if objects else "")


def _heading(documents: Sequence[dict[str, Any]]) -> str:
    """Return the commands of a benchmark, a line for each seed, and the machine."""
    machines = [document["machine"] for document in documents]
    where = "{cores} cores, {memory_gb} GB, {processor}, Python {python}".format_map(machines[0])
    if "random_read_ns" in machines[0]:
        where += f", {_range([machine['random_read_ns'] for machine in machines])} ns per random read"
    if "load_average" in machines[0]:
        loads = [round(machine["load_average"], 1) for machine in machines]
        where += f", load average {_range(loads)} at the end"
    commands = "\n".join(map(_command, documents))
    seconds = _range([round(document["seconds"]) for document in documents])
    return f"## {_title(documents[0])}\n\n```bash\n{commands}\n```\n\n{where}; {seconds} s.\n"


def _command(document: dict[str, Any]) -> str:
    """Return the command that printed a document."""
    options = [f"--{name} {value}" for name, value in document.get("options", {}).items() if name != "sha256"]
    seed = f"--scale {document['scale']} --seed {document['seed']}"
    return " ".join(["pststream bench run", document["name"], seed, *options, "--json"])


def _range(values: Sequence[float]) -> str:
    """Format the least and the greatest value; one if they are equal."""
    least, greatest = min(values), max(values)
    return f"{least}" if least == greatest else f"{least} to {greatest}"


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
    parts = [_sizes(figures)]
    for workload in (name.removesuffix(COMPARED) for name in figures if name.endswith(COMPARED)):
        ratio = _format_value(figures[f"{workload}{COMPARED}"])
        there = [name for name in PLANNERS if f"{workload}_{name}_throughput" in figures]
        shown = [figure for figure in FIGURES if all(f"{workload}_{name}_{figure}" in figures for name in there)]
        rows = [("planner", *(name.replace("_", " ") for name in shown)), ("---",) * (len(shown) + 1)]
        ranked = sorted(there, key=lambda name: -middle_of(figures[f"{workload}_{name}_throughput"]))
        rows += [
            (name, *(_format_value(figures[f"{workload}_{name}_{figure}"]) for figure in shown)) for name in ranked
        ]
        target = _target(targets.get(f"{workload}{COMPARED}"))
        model = [_format_value(figures[f"{workload}_model_{figure}"]) for figure in ("correlation", "over_measured")]
        wanted = _target(targets.get(f"{workload}_model_correlation"))
        parts.append(
            f"### {workload}: {_format_value(figures[f'{workload}_matches_per_object'])} matches per object\n\n"
            f"{_workload(figures, workload)}{_table(rows)}\n"
            f"`hybrid` over the best other planner: {ratio}{f' (target: {target})' if target else ''}\n\n"
            f"{_auto_line(figures, targets, workload)}"
            f"Model and measurement, over the workers of all plans: correlation {model[0]}"
            f"{f' (target: {wanted})' if wanted else ''}, total {model[1]} of the measured one\n"
        )
    return "\n".join(parts)


def _auto_line(figures: dict[str, Any], targets: dict[str, Any], workload: str) -> str:
    """Return a line on the planner `auto`; empty if it was not measured."""
    name = f"{workload}_auto_over_best"
    if name not in figures:
        return ""
    target, ratio, made_by = (
        _target(targets.get(name)),
        _format_value(figures[name]),
        figures[f"{workload}_auto_made_by"].replace(" or ", "` or `"),
    )
    return (
        f"`auto`, which chose `{made_by}`, over the best single planner: {ratio}"
        f"{f' (target: {target})' if target else ''}\n\n"
    )


def _workload(figures: dict[str, Any], workload: str) -> str:
    """Return a paragraph that says the workload in full; earlier versions did not write it."""
    text = figures.get(f"{workload}_workload")
    return f"{text}.\n\n" if text else ""


def _model_tables(document: dict[str, Any]) -> str:
    """Return the tables of a benchmark whose figures are lists of a median and its spread."""
    figures = document["figures"]
    tables = [f"### {title}\n\n{_table(rows)}" for title, rows in MODEL_TABLES[document["name"]](figures)]
    return "\n".join([_sizes(figures), *tables])


def _paper_tables(document: dict[str, Any]) -> str:
    """Return the tables of a benchmark that follows figures of a paper, the one of targets last; a list if an earlier
    version ran it.
    """
    figures = document["figures"]
    tables = [f"{title}.\n\n{_table(rows)}" for title, rows in PAPER_TABLES[document["name"]](figures, _format_value)]
    if not tables:
        return _figures_table(document)
    targets = [
        (f"`{name}`", _format_value(figures[name]), _target(target)) for name, target in document["targets"].items()
    ]
    if targets:
        tables.append(_table([("figure", "value", "target"), ("---",) * 3, *targets]))
    return "\n".join([_sizes(figures), *tables])


def _sizes(figures: dict[str, Any]) -> str:
    """Return a line on the sizes of a benchmark."""
    sizes = [f"{_format_value(figures[name])} {name.replace('_', ' ')}" for name in SIZES if name in figures]
    return f"{', '.join(sizes)}.\n"


def _compare_with_paper(documents: Sequence[dict[str, Any]]) -> str:
    """Compare the ratios in the paper with those measured here, in each document."""
    rows = [("figure", "workload", "ratio of", "planners", "paper", "here"), ("---",) * 6]
    for figure, workload, compared, one, other, paper in PAPER_RATIOS:
        names = [f"{workload}_{planner}_{compared}" for planner in (one, other)]
        ratios = [
            document["figures"][names[0]] / document["figures"][names[1]]
            for document in documents
            if all(name in document["figures"] for name in names)
        ]
        if ratios:
            here = _format_value(spread_of([round(ratio, 2) for ratio in ratios]))
            rows.append((figure, workload, compared.replace("_", " "), f"{one} over {other}", paper, here))
    return f"### Comparison with the paper's figures 6, 7, 9 and 10 (11: `scalability`)\n\n{_table(rows)}"


def _target(target: dict[str, Any] | None) -> str:
    return "" if target is None else f"{_format_value(target['target'])}: {'met' if target['met'] else '**missed**'}"


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        median, least, greatest = map(_format_value, value)
        return median if least == greatest else f"{median} ({least} to {greatest})"
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
