"""The comparison of planners, as text and as a page with plots (see pipeline/comparing/compare_planners.py for the
figures).
"""

from pathlib import Path
from typing import Any

from pststream.format_values import short, whole
from pststream.reports.commands.text_tables import text_table
from pststream.reports.pages.html_document import whole_page
from pststream.reports.plots.html import Markup, element

Figures = dict[str, Any]

COLUMNS: tuple[tuple[str, str], ...] = (
    ("planner", "planner"),
    ("throughput", "tuples/s"),
    ("load_total", "total CPU s"),
    ("max_seconds", "slowest CPU s"),
    ("imbalance", "imbalance"),
    ("copies", "copies an object"),
    ("subscriptions_stored", "subscriptions stored"),
    ("discarded", "discarded"),
    ("dispatch_seconds", "dispatch CPU s"),
    ("dispatch_bytes", "dispatch bytes"),
    ("units", "units"),
    ("seconds", "planned in s"),
    ("model_total", "model total s"),
    ("model_correlation", "model corr."),
)
"""Figure and its head; `throughput` is that of all workers: tuples over the CPU seconds of the slowest one."""


def render_comparison(document: Figures) -> str:
    """The figures as a table, and what they say in a sentence."""
    rows = [[head for _, head in COLUMNS]]
    rows += [[_shown(figures[name]) for name, _ in COLUMNS] for figures in document["plans"]]
    return "\n".join([*text_table(rows), "", verdict(document)])


def verdict(document: Figures) -> str:
    """Which planner is best, by how much, and what makes the difference to the next."""
    best, *others = document["plans"]
    told = f"{best['planner']} is best: {best['throughput']:,} tuples/s over {document['workers']} workers"
    if not others:
        return told + "."
    second = others[0]
    ahead = best["throughput"] / max(second["throughput"], 1) - 1
    reasons = [
        f"{name} {best[figure]:,} against {second[figure]:,}"
        for figure, name in (
            ("load_total", "CPU seconds in all"),
            ("imbalance", "imbalance"),
            ("copies", "copies of an object"),
            ("subscriptions_stored", "stored subscriptions"),
        )
        if best[figure] < 0.98 * second[figure]
    ]
    why = "; ".join(reasons) or "neither its total nor its copies tell: its most loaded worker has less to do"
    return f"{told}, {100 * ahead:.0f}% ahead of {second['planner']} ({why})."


def write_comparison(document: Figures, out: str) -> None:
    """Write a self-contained page: the table, the load of each worker under each plan, model beside measurement."""
    most = max(max(f["worker_seconds"], default=0.0) for f in document["plans"])
    throughput = max(f["throughput"] for f in document["plans"])
    intro = (
        f"{whole(document['objects'])} objects met {whole(document['requests'])} requests under each plan, with the "
        f"same {whole(document['matches'])} matches. Throughput is that of {document['workers']} workers together: "
        "tuples over the CPU seconds of the slowest."
    )
    page = whole_page(
        "Planners compared",
        element("header", element("h1", "Planners compared"), element("p", verdict(document)), element("p", intro)),
        element(
            "main",
            element("section", element("h2", "Throughput"), _throughput(document, throughput)),
            element("section", element("h2", "Load of each worker, CPU seconds"), _loads(document, most)),
            element("section", element("h2", "All figures"), _table(document)),
        ),
    )
    Path(out).write_text(page, "utf-8")


def _throughput(document: Figures, most: float) -> Markup:
    rows = [
        element(
            "tr",
            element("th", f["planner"], scope="row"),
            _bar(f["throughput"] / most, f"{f['throughput']:,} tuples/s", "w0"),
        )
        for f in document["plans"]
    ]
    return _scrolled("Throughput of each planner", element("table", element("tbody", rows), class_="balance"))


def _loads(document: Figures, most: float) -> Markup:
    head = element(
        "tr",
        element("th", "Worker", scope="col"),
        [element("th", f["planner"], scope="col") for f in document["plans"]],
    )
    rows = []
    for worker in range(document["workers"]):
        bars = [
            _bar(f["worker_seconds"][worker] / most if most else 0.0, f"{f['worker_seconds'][worker]:.3f}", f"w{place}")
            for place, f in enumerate(document["plans"])
        ]
        rows.append(element("tr", element("th", worker, scope="row"), bars))
    table = element("table", element("thead", head), element("tbody", rows), class_="balance")
    return _scrolled("CPU seconds of each worker", table)


def _table(document: Figures) -> Markup:
    head = element("tr", [element("th", name, scope="col") for _, name in COLUMNS])
    rows = [
        element("tr", [element("td", _shown(f[name]), data_label=head) for name, head in COLUMNS])
        for f in document["plans"]
    ]
    table = element("table", element("thead", head), element("tbody", rows), class_="balance")
    return _scrolled("All figures", table)


def _bar(part: float, shown: str, colour: str) -> Markup:
    bar = element("span", class_=f"bar {colour}", style=f"--part:{100 * part:.1f}%", aria_hidden="true")
    return element("td", element("span", shown, class_="value"), bar)


def _scrolled(label: str, table: Markup) -> Markup:
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return whole(value) if value < 10**7 else short(value)
    return str(value)
