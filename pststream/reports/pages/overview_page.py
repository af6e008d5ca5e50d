"""Read the state of a home and render it as the HTML overview page in Airflow."""

import datetime as dt
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.texts import byte_size, counted, percent, short, time_ago
from pststream.base.utc_times import utc_now
from pststream.plans.imbalance import imbalance_of, imbalance_text
from pststream.reports.commands.listings import COLUMNS
from pststream.reports.pages import plan_sections
from pststream.reports.pages.render_page import render_page
from pststream.reports.plots.bar_chart import BarChart, BarValue, draw_bar_chart, segment_style
from pststream.reports.plots.plan_map import draw_plan_map
from pststream.reports.reading.home_figures import (
    BatchHistory,
    BatchView,
    measure_object_lag,
    measure_request_lag,
    read_batch_history,
    read_deliveries,
    read_ledgers,
    read_quarantined_files,
)
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView, read_loads, read_plan
from pststream.reports.reading.samples import RejectView, sample_points
from pststream.storage.registry import files_at, normalize
from pststream.tables.delta_tables import HomeFolder, TableReader
from pststream.tables.owners import ID_COLUMNS

LATEST_REJECTS = 200
_EXAMPLES = 4
_MIGRATIONS = 8
_MATCHES = 12
_MIGRATION = (
    "plan_version", "plan_version_before", "kind", "reason", "origin", "target", "subscriptions", "bytes",
    "expected_gain", "load_before", "load_after", "decided_at",
)  # fmt: skip


class NoHome(UsageError):
    """There is no home at the given place."""


@dataclass(frozen=True)
class Overview:
    """What the page shows.

    lag         objects, requests: as in `pststream status --json`
    topk        the plan of `topk`, see `reports/commands/plans.py`; None if candidates are found by bucket
    balance     {batch: imbalance, the greatest CPU time of a worker over the least}, of the latest batches
    migrations  for each of the latest migrations, newest first, its rows of the table `migrations`
    matches     some objects of the latest batch that has matches: object_id, ts, pairs
    answers     some subscriptions with memory whose answers were changed last: owner, subscription_id, kind
    """

    home: str
    at: dt.datetime
    history: BatchHistory
    lag: dict[str, dict[str, Any]]
    plan: PlanView | None
    loads: MeasuredLoads | None
    topk: dict[str, Any] | None
    points: np.ndarray
    balance: dict[int, float]
    migrations: list[list[dict[str, Any]]]
    matches: list[dict[str, Any]]
    answers: list[dict[str, Any]]
    rejects: list[RejectView]
    quarantined: list[dict[str, Any]]
    sinks: list[dict[str, Any]]
    problems: list[str]


def open_home(home: str) -> TableReader:
    """Open the tables of a home; raises NoHome if it does not exist or its creation did not finish."""
    home = normalize(home)
    if not files_at(home).exists(names.HOME_MARK):
        raise NoHome(f"there is no home at {home}", f"run: pststream init --home {home}")
    return TableReader(HomeFolder(home), tolerant=True)


def read_overview(home: str) -> Overview:
    """Read the state of a home: ledgers, backlog, current plan, latest rows of other tables.

    No table that grows with objects, subscriptions or matches is read as a whole, so the time does not depend on the
    size of the home.

    Raises NoHome. A table that cannot be read counts as empty, and `problems` names it.
    """
    tables = open_home(home)
    reader, ledgers = tables.strict, read_ledgers(tables)
    history, plan = read_batch_history(tables), read_plan(tables)
    since = history.batches[0].batch_id if history.batches else 0
    lag: dict[str, dict[str, Any]] = {kind: {"rows": 0, "files": 0} for kind in ("objects", "requests")}
    quarantined: list[dict[str, Any]] = []
    sinks: list[dict[str, Any]] = []
    if ledgers is not None:
        lag["objects"] = tables.tolerate(names.OBJECTS, lambda: measure_object_lag(reader, ledgers), lag["objects"])
        lag["requests"] = measure_request_lag(ledgers)
        quarantined = tables.tolerate(names.QUARANTINE, lambda: read_quarantined_files(reader, ledgers), [])
        sinks = tables.tolerate(names.DELIVERIES, lambda: read_deliveries(reader, ledgers), [])
    return Overview(
        home=home,
        at=utc_now(),
        history=history,
        lag=lag,
        plan=plan,
        loads=read_loads(tables, plan, since) if plan is not None else None,
        topk=plan_sections.read_topk(tables, plan, since),
        points=sample_points(tables),
        balance=_balance(tables, since),
        migrations=_migrations(tables),
        matches=_matches(tables, history),
        answers=tables.tolerate(names.ANSWER_LOG, lambda: _answers(tables, history), []),
        rejects=tables.tolerate(names.REJECTS, lambda: _rejects(tables), []),
        quarantined=quarantined,
        sinks=sinks,
        problems=tables.problems,
    )


def _balance(tables: TableReader, since: int) -> dict[int, float]:
    """The imbalance by CPU time of each batch from `since` on; a worker without a row had no work."""
    workers = {row["plan_version"]: row["workers"] for row in tables.rows(names.PLANS, ("plan_version", "workers"))}
    whole = (pds.field("unit") == names.WHOLE_WORKER) & (pds.field("worker") >= 0) & (pds.field("batch_id") >= since)
    columns = ("batch_id", "plan_version", "cpu_seconds")
    batches = list(tables.batches(names.UNIT_LOADS, columns, whole))
    if not batches:
        return {}
    sums = [("cpu_seconds", "max"), ("cpu_seconds", "min"), ("cpu_seconds", "count"), ("plan_version", "max")]
    rows = pa.Table.from_batches(batches).group_by("batch_id").aggregate(sums).sort_by("batch_id").to_pylist()
    return {
        row["batch_id"]: imbalance_of([row["cpu_seconds_max"], row["cpu_seconds_min"] if busy >= all_workers else 0.0])
        for row in rows
        for busy in [row["cpu_seconds_count"]]
        for all_workers in [workers.get(row["plan_version_max"], busy)]
        if row["cpu_seconds_max"] > 0
    }


def _migrations(tables: TableReader) -> list[list[dict[str, Any]]]:
    """The moves of the latest migrations, grouped by plan; plans that never came into force are left out."""
    plans = {row["plan_version"] for row in tables.rows(names.PLANS, ("plan_version",))}
    versions = {row["plan_version"] for row in tables.rows(names.MIGRATIONS, ("plan_version",))}
    latest = sorted(plans & versions, reverse=True)[:_MIGRATIONS]
    if not latest:
        return []
    rows = tables.rows(names.MIGRATIONS, _MIGRATION, pds.field("plan_version").isin(latest))
    return [[row for row in rows if row["plan_version"] == version] for version in latest]


def _matches(tables: TableReader, history: BatchHistory) -> list[dict[str, Any]]:
    """Some matched objects of the latest batch that has matches."""
    last = next((batch.batch_id for batch in reversed(history.batches) if batch.matches), None)
    if last is None:
        return []
    objects: dict[str, dict[str, Any]] = {}
    mine = (pds.field("batch_id") == last) & (pds.field("worker") >= 0)
    for batch in tables.batches(names.MATCHES, ("object_id", "ts", "subscription_keys"), mine, rows=256):
        pairs = pc.list_value_length(batch.column("subscription_keys")).to_pylist()
        for row, count in zip(batch.select(["object_id", "ts"]).to_pylist(), pairs):
            objects.setdefault(row["object_id"], {**row, "pairs": 0})["pairs"] += count
        if len(objects) >= _MATCHES:
            break
    return list(objects.values())[:_MATCHES]


def _answers(tables: TableReader, history: BatchHistory) -> list[dict[str, Any]]:
    """Some subscriptions whose answers the latest batches that are done have changed, from a few data files."""
    last = history.batches[-1].batch_id if history.batches else 0
    wanted = (pds.field("part") == "change") & (pds.field("batch_id") <= last)
    keys: list[int] = []
    for _, file in tables.strict.files(names.ANSWER_LOG, "batch_id", wanted, greatest=True)[:_MATCHES]:
        rows = next(tables.strict.batches_of(names.ANSWER_LOG, file, ("subscription_key",), wanted, rows=256), None)
        keys += dict.fromkeys(rows.column(0).to_pylist()) if rows is not None else ()
    keys = sorted(set(keys))[:_MATCHES]
    among = pds.field("request_key").isin(keys)
    return tables.rows(names.REQUESTS, (*ID_COLUMNS, "kind"), among) if keys else []


def _rejects(tables: TableReader) -> list[RejectView]:
    """Some of the latest rejected rows by kind and reason, the most frequent first, with examples.

    They are the first rows in the data files of the latest ingests; `pststream rejects` sorts all.
    """
    views: dict[tuple[str, str], RejectView] = {}
    files = tables.strict.files(names.REJECTS, "ingest_id", greatest=True)
    batches = (tables.strict.batches_of(names.REJECTS, file, COLUMNS, rows=LATEST_REJECTS) for _, file in files)
    rows = (row for batch in chain.from_iterable(batches) for row in batch.to_pylist())
    for row in islice(rows, LATEST_REJECTS):
        view = views.setdefault((row["kind"], row["reason"]), RejectView(row["kind"], row["reason"], 0))
        view.count += 1
        if len(view.examples) < _EXAMPLES:
            view.examples.append(row)
    return sorted(views.values(), key=lambda view: -view.count)


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
    loads: list[plan_sections.LoadRow] | None


def render_overview(overview: Overview) -> str:
    """Render the page as HTML."""
    history, plan = overview.history, overview.plan
    dots = [("dot objects-dot", plan_sections.sampled(len(overview.points), "object")), plan_sections.CITIES]
    plan_map = draw_plan_map(plan, overview.loads, overview.points, [])
    topk = plan_sections.prepare_topk(overview.topk, plan_map.projection)
    return render_page(
        "overview.html",
        forms=True,
        overview=overview,
        waiting={kind: _describe_waiting(lag, overview) for kind, lag in overview.lag.items()},
        last_batch=history.batches[-1].finished_at if history.batches else None,
        batches_behind=sum(sink["batches_left"] for sink in overview.sinks),
        plan_note=plan_sections.describe_plan(plan),
        map=plan_map,
        legend=[*dots, *plan_sections.plan_items(plan), *plan_sections.topk_items(topk)],
        balance_figure=_draw_balance(overview),
        balance=plan_sections.prepare_balance(plan, overview.loads) if plan is not None else None,
        topk=topk,
        throughput_figure=_draw_throughput(history.batches),
        batches=plan_sections.prepare_batches(history),
        migrations=[_view_migration(rows) for rows in overview.migrations],
        max_rejects=LATEST_REJECTS,
        quarantined=list(reversed(overview.quarantined[-20:])),
    )


def _describe_waiting(lag: dict[str, Any], overview: Overview) -> str:
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

    def tick(value: float) -> str:
        return f"{value / 1000:g} k" if value >= 10_000 else f"{value:g}"

    bars = [BarValue(batch, [value], f"Batch {batch}: {text}") for batch, value, text in values]
    chart = draw_bar_chart(caption, bars, [segment_style(1)], tick, divided or [], origin)
    return BarFigure(chart, caption, unit, [(batch, text) for batch, _, text in reversed(values)])


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
    loads = plan_sections.compare_loads(before.tolist(), after.tolist()) if len(before) == len(after) else None
    return MigrationView(first, text, f"{was} → {would_be}", loads)
