"""Render the overview page of a home in Airflow as HTML from an Overview (overview_data.py)."""

import datetime as dt
from typing import Any, NamedTuple

import numpy as np

from pststream.base.format_values import byte_size, counted, percent, short, time_ago
from pststream.plans.imbalance import imbalance_of, imbalance_text
from pststream.reports.pages.balance_section import LoadRow, compare_loads, prepare_balance
from pststream.reports.pages.batches_section import prepare_batches
from pststream.reports.pages.map_section import CITIES, describe_plan, plan_items, sampled
from pststream.reports.pages.overview_data import LATEST_REJECTS, Overview
from pststream.reports.pages.render_page import render_page
from pststream.reports.pages.topk_section import prepare_topk, topk_items
from pststream.reports.plots.bar_chart import BarChart, BarValue, draw_bar_chart, segment_style
from pststream.reports.plots.plan_map import draw_plan_map
from pststream.reports.reading.batch_history import BatchView

_MAX_QUARANTINED = 20
_MAX_BAR = 10.0
"""Height at which the bar of an imbalance ends: in a small batch a worker may have nearly no work."""


class BarFigure(NamedTuple):
    """A chart with one value for each batch, its caption, and the values as a table."""

    chart: BarChart
    caption: str
    unit: str
    rows: list[tuple[int, str]]


class MigrationView(NamedTuple):
    """One migration: its row of `migrations`, what it did in a sentence, and the loads before and after.

    imbalance  greatest load over the least, before and after
    loads      None if the number of workers changed
    """

    row: dict[str, Any]
    text: str
    imbalance: str
    loads: list[LoadRow] | None


def render_overview(overview: Overview) -> str:
    """Render the page as HTML."""
    history, plan = overview.history, overview.plan
    dots = [("dot objects-dot", sampled(len(overview.points), "object")), CITIES]
    plan_map = draw_plan_map(plan, overview.loads, overview.points, [])
    topk = prepare_topk(overview.topk, plan_map.projection)
    return render_page(
        "overview.html",
        forms=True,
        overview=overview,
        waiting={kind: _describe_waiting(kind, overview) for kind in ("objects", "requests")},
        last_batch=history.batches[-1].finished_at if history.batches else None,
        batches_behind=sum(sink["batches_left"] for sink in overview.sinks),
        plan_note=describe_plan(plan),
        map=plan_map,
        legend=[*dots, *plan_items(plan), *topk_items(topk)],
        balance_figure=_draw_balance(overview),
        balance=prepare_balance(plan, overview.loads) if plan is not None else None,
        topk=topk,
        throughput_figure=_draw_throughput(history.batches),
        batches=prepare_batches(history),
        migrations=[_view_migration(rows) for rows in overview.migrations],
        max_rejects=LATEST_REJECTS,
        quarantined=list(reversed(overview.quarantined[-_MAX_QUARANTINED:])),
    )


def _describe_waiting(kind: str, overview: Overview) -> str:
    lag = overview.lag[kind]
    if not lag["files"]:
        return "all are matched" if overview.history.totals.batches else "none"
    oldest = lag.get("oldest_ts") or lag.get("oldest_at")
    since = f", oldest {time_ago(dt.datetime.fromisoformat(oldest), overview.at)}" if oldest else ""
    return f"in {counted(lag['files'], 'file')}{since}"


def _draw_balance(overview: Overview) -> BarFigure | None:
    """The imbalance of each batch, with a line where the plan changed."""
    if not overview.balance:
        return None
    version = {batch.batch_id: batch.plan_version for batch in overview.history.batches}
    numbers = list(overview.balance)
    changes = [b for a, b in zip(numbers, numbers[1:]) if version.get(a) != version.get(b)]
    return _draw_figure(
        f"Imbalance of each batch: greatest CPU time of a worker over the least; 1 is even, and a bar ends at"
        f" {_MAX_BAR:g}. Dashed line: the plan changed.",
        "Imbalance",
        [(batch, min(value, _MAX_BAR), imbalance_text(value)) for batch, value in overview.balance.items()],
        changes,
        origin=1.0,
    )


def _draw_throughput(batches: tuple[BatchView, ...]) -> BarFigure | None:
    rates = [(batch.batch_id, rate) for batch in batches if (rate := batch.objects_per_second) is not None]
    if not any(rate for _, rate in rates):
        return None
    values = [(batch, rate, f"{short(rate)} objects/s") for batch, rate in rates]
    return _draw_figure("Objects per second of each batch", "Objects per second", values)


def _draw_figure(
    caption: str, unit: str, values: list[tuple[int, float, str]], divided: list[int] | None = None, origin: float = 0.0
) -> BarFigure:
    """A chart of (batch, value, value as text)."""
    bars = [BarValue(batch, [value], f"Batch {batch}: {text}") for batch, value, text in values]
    chart = draw_bar_chart(caption, bars, [segment_style(1)], _format_tick, divided or [], origin)
    return BarFigure(chart, caption, unit, [(batch, text) for batch, _, text in reversed(values)])


def _format_tick(value: float) -> str:
    return f"{value / 1000:g} k" if value >= 10_000 else f"{value:g}"


def _view_migration(rows: list[dict[str, Any]]) -> MigrationView:
    first = rows[0]
    before, after = (np.array(first[f"load_{when}"] or [0.0]) for when in ("before", "after"))
    was, would_be = (imbalance_text(imbalance_of(loads)) for loads in (before, after))
    reasons = ", ".join(dict.fromkeys(row["reason"] for row in rows))
    text = (
        f"By {reasons}: {counted(len(rows), 'move')}, {counted(first['subscriptions'], 'row')} of the index"
        f" ({byte_size(first['bytes'])}). Expected gain: {percent(first['expected_gain'])} of the greatest load."
        f" Greatest load over the least, predicted: {was} before, {would_be} after."
    )
    loads = compare_loads(before.tolist(), after.tolist()) if len(before) == len(after) else None
    return MigrationView(first, text, f"{was} → {would_be}", loads)
