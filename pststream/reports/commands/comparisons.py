"""Render the figures of `pststream plans compare` and `pststream replay` as text tables with verdicts.

pipeline/replan (compare_planners.py, replay.py) measures the figures; pages/adjustment_page.py writes them as pages.
"""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from pststream.base.texts import counted, table_lines, whole_or_short
from pststream.plans.imbalance import imbalance_text
from pststream.reports.commands.plans import name_plan, render_topk_plan
from pststream.tables.owners import show_id

COLUMNS: tuple[tuple[str, str], ...] = (
    ("planner", "planner"),
    ("throughput", "tuples/s"),
    ("load_total", "total CPU s"),
    ("max_seconds", "slowest CPU s"),
    ("imbalance", "imbalance"),
    ("model_imbalance", "model imbalance"),
    ("copies", "copies per object"),
    ("subscriptions_stored", "subscriptions stored"),
    ("discarded", "discarded"),
    ("dispatch_seconds", "dispatch CPU s"),
    ("dispatch_bytes", "dispatch bytes"),
    ("worker_bytes", "bytes of a worker"),
    ("units", "units"),
    ("seconds", "planned in s"),
    ("model_total", "model total s"),
    ("model_correlation", "model corr."),
)
"""Key and title of each figure; `throughput` is tuples over the CPU seconds of the slowest worker."""

_REASONS = (
    ("load_total", "CPU seconds in all"),
    ("imbalance", "imbalance"),
    ("copies", "copies of an object"),
    ("subscriptions_stored", "stored subscriptions"),
)


def render_comparison(document: dict[str, Any]) -> str:
    """The figures of each planner as a table, and the verdict."""
    rows = [[title for _, title in COLUMNS]]
    rows += [[format_figure(figures[key], key) for key, _ in COLUMNS] for figures in document["plans"]]
    return "\n".join([*table_lines(rows), "", describe_best(document)])


def describe_best(document: dict[str, Any]) -> str:
    """Which planner is best, by how much, and what makes the difference to the next one."""
    best, *others = document["plans"]
    text = f"{best['planner']} is best: {best['throughput']:,} tuples/s over {document['workers']} workers"
    if not others:
        return f"{text}."
    second = others[0]
    ahead = best["throughput"] / max(second["throughput"], 1) - 1
    # Figures that are at least 2 % less; None is an imbalance with an idle worker, greater than any number.
    reasons = [
        f"{name} {_in_full(best[key], key)} against {_in_full(second[key], key)}"
        for key, name in _REASONS
        if best[key] is not None and (second[key] is None or best[key] < 0.98 * second[key])
    ]
    why = "; ".join(reasons) or "its most loaded worker has less to do"
    return f"{text}, {100 * ahead:.0f}% ahead of {second['planner']} ({why})."


def _in_full(value: float | None, key: str) -> str:
    return imbalance_text(value) if "imbalance" in key else f"{value:,}"


def format_figure(value: Any, key: str, whole: Callable[[int], str] = whole_or_short) -> str:
    """A figure as text; a dash for None, unless it is an imbalance."""
    if "imbalance" in key:
        return imbalance_text(value)
    if value is None:
        return "-"
    return whole(value) if isinstance(value, int) else str(value)


TOPK_COLUMNS = (
    ("planner", "planner"),
    ("throughput", "objects/s"),
    ("total_us", "total CPU us"),
    ("slowest_us", "slowest CPU us"),
    ("imbalance", "imbalance"),
    ("model_imbalance", "model imbalance"),
    ("model_correlation", "corr."),
    ("replication", "units a subscription"),
    ("copies", "units an object"),
    ("route_us", "route CPU us"),
    ("plan_seconds", "planned in s"),
    ("pairs", "candidates"),
)
"""Key and title of each figure; microseconds are for an object."""


def render_topk_comparison(document: dict[str, Any]) -> str:
    """The figures of each planner as a table."""
    rows = [[title for _, title in TOPK_COLUMNS]]
    rows += [
        [format_figure(figures[key], key, "{:,}".format) for key, _ in TOPK_COLUMNS] for figures in document["plans"]
    ]
    size = f"{document['subscriptions']:,} sampled subscriptions, {document['objects']:,} objects"
    return "\n".join([*table_lines(rows), "", f"{size}, {document['workers']} units"])


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

WORKER_FIGURES: tuple[tuple[str, str], ...] = (("worker_seconds", "CPU s"), ("worker_objects", "objects"))
"""Key and title of each figure of a worker."""

MAX_WORKERS = 100


def render_replay(document: dict[str, Any]) -> str:
    """Return the figures and the loads of the workers, both sides next to each other, and the verdict."""
    rows = [["", "was", "would be", "change"], *figure_rows(document)]
    workers = _worker_rows(document)
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
    plan = document["plan"]
    size = f"{counted(plan['workers'], 'worker')}, {counted(plan['units'], 'unit')}"
    tried = f"{name_plan(plan['plan_version'])} ({plan['planner']}, {size})"
    return [f"{batches}: {tuples}", f"was: under plan {versions}; would be: under {tried}"]


def figure_rows(document: dict[str, Any]) -> list[list[str]]:
    """Return title, recorded value, replayed value and change of each figure as texts."""
    figures = ((key, title, document["was"][key], document["would_be"][key]) for key, title in FIGURES)
    return [
        [title, _replayed_text(was, key), _replayed_text(would_be, key), _change(was, would_be)]
        for key, title, was, would_be in figures
    ]


def _worker_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row of texts for each worker: its number, and each of WORKER_FIGURES on both sides."""
    columns = [document[side][key] for key, _ in WORKER_FIGURES for side in ("was", "would_be")]
    texts = [map(_replayed_text, values) for values in columns]
    numbers = map(str, range(max(map(len, columns))))
    return list(zip_longest(numbers, *texts, fillvalue="-"))


def is_as_recorded(document: dict[str, Any]) -> bool:
    """Whether the replay found the recorded matches, and the recorded answers if they are known."""
    return bool(document["matches_equal"]) and document.get("answers_equal") is not False


def describe_matches(document: dict[str, Any]) -> str:
    """Say whether the replay found the recorded matches and answers."""
    if is_as_recorded(document):
        return "the matches are the recorded ones; the home was not changed"
    if document["matches_equal"]:
        return "THE ANSWERS DIFFER from the recorded ones: this is a bug of PSTStream, please report it"
    return "THE MATCHES DIFFER from the recorded ones: this is a bug of PSTStream, please report it"


def describe_differences(document: dict[str, Any]) -> list[str]:
    """Return a line for each of the first pairs that differ."""
    return [
        f"  batch {one['batch_id']}: object {one['object_id']}, subscription"
        f" {show_id(one['owner'], one['subscription_id'])}"
        f"{', retracted' if one['retracted'] else ''}: only in the {one['only_in']} matches"
        for one in document["differences"]
    ]


def _replayed_text(value: Any, key: str = "") -> str:
    if key == "imbalance":
        return imbalance_text(value)
    return whole_or_short(value) if isinstance(value, int) else f"{value:.4g}"


def _change(was: float | None, would_be: float | None) -> str:
    if was == would_be:
        return "="
    if not was or would_be is None:
        return "-"
    return f"{100 * (would_be / was - 1):+.1f}%"
