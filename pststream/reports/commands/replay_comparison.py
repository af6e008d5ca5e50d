"""Render the document of `pststream replay` as text tables: what was recorded, and what would have been.

pipeline/replan/replay.py makes the document; pages/replay_page.py writes it as a page.
"""

from typing import Any

from pststream.base.format_values import counted, whole_or_short
from pststream.base.text_tables import table_lines
from pststream.plans.imbalance import imbalance_text
from pststream.reports.commands.topk_plan import name_plan, render_topk_plan

FIGURES: tuple[tuple[str, str], ...] = (
    ("matches", "matches"),
    ("retractions", "retractions"),
    ("objects_sent", "objects sent"),
    ("duplicates", "duplicates"),
    ("discarded", "discarded"),
    ("candidates", "postings checked"),
    ("subscriptions_stored", "subscriptions stored"),
    ("load_total", "total CPU s"),
    ("max_seconds", "slowest CPU s"),
    ("imbalance", "imbalance"),
    ("throughput", "tuples/s"),
    ("dispatch_seconds", "dispatch CPU s"),
)
"""Key and title of each figure of both sides."""

WORKER_FIGURES: tuple[tuple[str, str], ...] = (
    ("worker_seconds", "CPU s"),
    ("worker_objects", "objects"),
)
"""Key and title of each figure of a worker."""

MAX_WORKERS = 100


def render_replay(document: dict[str, Any]) -> str:
    """Return the figures and the loads of the workers, both sides next to each other, and the verdict."""
    rows = [["", "was", "would be", "change"], *figure_rows(document)]
    workers = worker_rows(document)
    titles = [f"{title} {side}" for _, title in WORKER_FIGURES for side in ("was", "would be")]
    lines = [*describe_head(document), "", *table_lines(rows), ""]
    lines += table_lines([["worker", *titles], *workers[:MAX_WORKERS]])
    if len(workers) > MAX_WORKERS:
        lines.append(f"the first {MAX_WORKERS} of {len(workers)} workers; --out writes all of them")
    if "topk" in document:
        lines += ["", render_topk_plan(document["topk"])]
    lines += ["", describe_matches(document), *describe_differences(document)]
    if document["out"]:
        lines.append(f"written to {document['out']}: matches.parquet, loads.csv, replay.json")
    return "\n".join(lines)


def describe_head(document: dict[str, Any]) -> list[str]:
    """Return the lines that name the batches and the two plans."""
    was, first, last = document["was"], document["first_batch"], document["last_batch"]
    batches = f"batch {first}" if first == last else f"batches {first} to {last}"
    versions = ", ".join(map(str, was["plan_versions"]))
    tuples = f"{counted(was['objects'], 'object')}, {counted(was['requests'], 'request')}"
    return [
        f"{batches}: {tuples}",
        f"was: under plan {versions}; would be: under {describe_plan(document['plan'])}",
    ]


def describe_plan(plan: dict[str, Any]) -> str:
    """Return the name of the plan that was tried, with its size."""
    size = f"{counted(plan['workers'], 'worker')}, {counted(plan['units'], 'unit')}"
    return f"{name_plan(plan['plan_version'])} ({plan['planner']}, {size})"


def figure_rows(document: dict[str, Any]) -> list[list[str]]:
    """Return title, recorded value, replayed value and change of each figure as texts."""
    was, would_be = document["was"], document["would_be"]
    return [
        [title, format_figure(was[key], key), format_figure(would_be[key], key), _change(was[key], would_be[key])]
        for key, title in FIGURES
    ]


def worker_rows(document: dict[str, Any]) -> list[list[str]]:
    """Return a row of texts for each worker: its number, and each of WORKER_FIGURES on both sides."""
    was, would_be = document["was"], document["would_be"]
    workers = max(len(was["worker_seconds"]), len(would_be["worker_seconds"]))
    return [
        [str(worker), *(_of_worker(side[key], worker) for key, _ in WORKER_FIGURES for side in (was, would_be))]
        for worker in range(workers)
    ]


def is_as_recorded(document: dict[str, Any]) -> bool:
    """Whether the replay found the recorded matches, and the recorded answers if they are known."""
    return bool(document["matches_equal"]) and document.get("answers_equal") is not False


def describe_matches(document: dict[str, Any]) -> str:
    """Return whether the replay found the recorded matches and answers."""
    if is_as_recorded(document):
        return "the matches are the recorded ones; the home was not changed"
    if document["matches_equal"]:
        return "THE ANSWERS DIFFER from the recorded ones: this is a bug of PSTStream, please report it"
    return "THE MATCHES DIFFER from the recorded ones: this is a bug of PSTStream, please report it"


def describe_differences(document: dict[str, Any]) -> list[str]:
    """Return a line for each of the first pairs that differ."""
    return [
        f"  batch {one['batch_id']}: object {one['object_id']}, subscription {one['subscription_id']}"
        f"{', retracted' if one['retracted'] else ''}: only in the {one['only_in']} matches"
        for one in document["differences"]
    ]


def format_figure(value: Any, key: str = "") -> str:
    """Return a figure as text."""
    if key == "imbalance":
        return imbalance_text(value)
    return whole_or_short(value) if isinstance(value, int) else f"{value:.4g}"


def _change(was: float | None, would_be: float | None) -> str:
    if was == would_be:
        return "="
    if not was or would_be is None:
        return "-"
    return f"{100 * (would_be / was - 1):+.1f}%"


def _of_worker(values: list[float], worker: int) -> str:
    return format_figure(values[worker]) if worker < len(values) else "-"
