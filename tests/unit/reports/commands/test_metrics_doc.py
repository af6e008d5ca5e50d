"""docs/operation.md lists every metric as `metric_names.py` declares it.

After a change of the metrics, `python -m tests.unit.reports.commands.test_metrics_doc` rewrites that part of the page.
"""

from pathlib import Path

from pststream.reports.commands.metric_names import METRICS, PREFIX, Metric

PAGE = Path(__file__).parents[4] / "docs" / "operation.md"
BEGIN, END = "<!-- metrics: begin -->\n", "<!-- metrics: end -->\n"


def rendered() -> str:
    """Return the generated part of the page."""
    lines = ["| metric | type | unit | meaning |", "|---|---|---|---|"]
    return "\n".join([*lines, *(line(name, metric) for name, metric in METRICS.items())])


def line(name: str, metric: Metric) -> str:
    """Return the line of a metric."""
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    return f"| `{PREFIX}{name}{labels}` | {metric.type} | {metric.unit} | {metric.meaning} |"


def test_the_page_says_what_is_declared() -> None:
    part = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert part.strip() == rendered(), "run: python -m tests.unit.reports.commands.test_metrics_doc"


def write_page() -> None:
    """Rewrite the generated part of the page."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{rendered()}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    write_page()
