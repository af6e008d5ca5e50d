"""The report: one self-contained page on a home, from bounded reads of its tables."""

import datetime as dt
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pststream.format_values import counted, moment, short, whole
from pststream.reports.pages.balance_section import balance_section
from pststream.reports.pages.batches_section import batches_section
from pststream.reports.pages.html_document import whole_page
from pststream.reports.pages.matches_section import matches_section, rejects_section
from pststream.reports.plots.html import Markup, element, joined
from pststream.reports.plots.plan_map import COLOURS, draw_map, map_tools
from pststream.reports.reading.batch_history import Course, read_course
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView, read_loads, read_plan
from pststream.reports.reading.samples import MatchView, RejectView, sample_matches, sample_points, sample_rejects
from pststream.reports.reading.tolerant_reader import Tables


@dataclass(frozen=True)
class Report:
    """What a page shows."""

    home: str
    made_at: dt.datetime
    course: Course
    plan: PlanView | None
    loads: MeasuredLoads | None
    points: np.ndarray
    matches: list[MatchView]
    rejects: list[RejectView]
    problems: list[str]

    @property
    def empty(self) -> bool:
        """The home holds nothing yet."""
        totals = self.course.totals
        return not (totals.objects or totals.requests or self.plan or self.rejects or self.course.batches)


def write_report(home: str | os.PathLike[str], out: str | os.PathLike[str]) -> dict[str, object]:
    """Write the page on `home` to the file `out`; tables that are absent or empty have empty sections.

    Returns where it is, its size, and the totals it shows.
    """
    report = read_report(str(home))
    page = render(report)
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, "utf-8")
    totals = report.course.totals
    return {
        "out": str(path),
        "bytes": path.stat().st_size,
        "objects": totals.objects,
        "subscriptions": totals.insertions,
        "matches": totals.matches,
        "rejected": totals.rejected_objects + totals.rejected_requests,
        "batches": totals.batches,
        "plan_version": report.plan.version if report.plan else None,
        "problems": report.problems,
    }


def read_report(home: str) -> Report:
    """Read what the page shows: ledgers whole, samples and counts of everything else."""
    tables = Tables(home)
    course = read_course(tables)
    plan = read_plan(tables)
    loads = read_loads(tables, plan) if plan is not None else None
    points, matches, rejects = sample_points(tables), sample_matches(tables), sample_rejects(tables)
    now = dt.datetime.now(dt.UTC)
    return Report(home, now, course, plan, loads, points, matches, rejects, tables.problems)


def render(report: Report) -> str:
    """The page as text."""
    return whole_page(
        "PSTStream report",
        element("a", "Skip to the map", href="#at-map", class_="skip"),
        _header(report),
        element("main", _sections(report)),
        element("footer", f"Made by pststream report at {moment(report.made_at)} UTC. This file loads nothing."),
    )


def _header(report: Report) -> Markup:
    problems = element(
        "div", element("ul", [element("li", p) for p in report.problems]), class_="problems", role="alert"
    )
    empty = element(
        "p",
        "This home holds no objects, subscriptions or plans yet. Begin with: pststream ingest requests …, then "
        "pststream ingest objects …, then pststream match.",
        class_="empty",
    )
    return element(
        "header",
        element("h1", "PSTStream report"),
        element("p", f"{report.home} · {moment(report.made_at)} UTC", class_="quiet"),
        problems if report.problems else None,
        empty if report.empty else element("dl", _tiles(report), class_="tiles"),
    )


def _tiles(report: Report) -> list[Markup]:
    totals, plan, batches = report.course.totals, report.plan, report.course.batches
    newest = joined("newest ", _time(totals.newest_object)) if totals.newest_object else None
    rejected = totals.rejected_objects + totals.rejected_requests
    facts: list[tuple[str, str, str | None]] = [
        ("Objects", _big(totals.objects), newest),
        ("Subscriptions", _big(totals.insertions), f"{whole(totals.deletions)} of them deleted"),
        ("Matches", _big(totals.matches), f"{whole(totals.retractions)} taken back" if totals.retractions else None),
        (
            "Rejected rows",
            _big(rejected),
            f"{whole(totals.rejected_objects)} objects, {whole(totals.rejected_requests)} requests",
        ),
        ("Batches", whole(totals.batches), joined("last ", _time(batches[-1].finished_at)) if batches else None),
        ("Waiting objects", _big(totals.waiting), "not matched yet" if totals.waiting else "all are matched"),
    ]
    if plan is not None:
        facts.append(
            ("Plan", f"Version {plan.version}", f"{plan.row['planner']}, {counted(plan.plan.workers, 'worker')}")
        )
    return [
        element("div", element("dt", title), element("dd", value), element("dd", more) if more else None)
        for title, value, more in facts
    ]


def _time(value: dt.datetime | None) -> Markup:
    return element("time", moment(value).rsplit(":", 1)[0])


def _big(value: int) -> str:
    return whole(value) if value < 10_000_000 else short(value)


def _sections(report: Report) -> Markup:
    drawing, projection = draw_map(report.plan, report.loads, report.points, report.matches)
    total = report.course.totals.matches - report.course.totals.retractions
    return joined(
        _section("map", "Map of the plan", map_note(report.plan), _map_card(report, drawing)),
        _section("balance", "Balance of the workers", balance_section(report.plan, report.loads)),
        _section("batches", "Batches", batches_section(report.course)),
        _section("matches", "Matches", matches_section(report.matches, total, projection)),
        _section("rejects", "Rejected rows", rejects_section(report.rejects)),
    )


def _section(name: str, title: str, *content: Markup | None) -> Markup:
    heading = element("h2", title, id=f"at-{name}")
    return element("section", heading, *content, aria_labelledby=f"at-{name}")


def map_note(view: PlanView | None) -> Markup:
    """What the map shows, in words."""
    if view is None:
        return element("p", "No plan yet: cities and objects only.", class_="note")
    plan = view.plan
    by_text = int((plan.leaf_unit < 0).sum())
    text = (
        f"Plan {view.version} by {view.row['planner']}: {counted(plan.leaves, 'leaf', 'leaves')}"
        f" ({whole(by_text)} partitioned by text) over {plan.grid.columns} × {plan.grid.rows} cells, served by"
        f" {counted(plan.workers, 'worker')}. Numbers on the map name workers."
    )
    if (older := view.row["retiring_version"]) is not None:
        text += (
            f" Plan {older} is being retired: it still serves the subscriptions that were there before plan"
            f" {view.version}, and objects go to the workers that either plan asks for."
        )
    return element("p", text, class_="note")


def _map_card(report: Report, drawing: Markup) -> Markup:
    hint = (
        "Choose a dot to read its match. By keyboard: Tab to the dots, then the arrow keys."
        if report.matches
        else "No matches to show yet."
    )
    aside = element(
        "aside", element("p", hint, class_="quiet"), id="chosen", aria_live="polite", aria_label="Chosen match"
    )
    return element(
        "div",
        map_tools([("plan", "Plan"), ("objects", "Objects"), ("matches", "Matches")]),
        element("div", drawing, aside, class_="mapped"),
        _legend(report),
        class_="card",
    )


def _legend(report: Report) -> Markup:
    return legend(
        report.plan,
        [
            ("dot objects-dot", f"{counted(len(report.points), 'object')} (a sample)"),
            ("dot match-dot", f"{counted(len(report.matches), 'match', 'matches')} (a sample)"),
            ("dot city-dot", "cities, as the base map"),
        ],
    )


def legend(view: PlanView | None, items: list[tuple[str, str]]) -> Markup:
    """What the colours of the map mean: (class, text) of the dots, then the workers of the plan."""
    if view is not None:
        shown = min(view.plan.workers, COLOURS)
        items = [*items, *((f"w{worker}", f"worker {worker}") for worker in range(shown))]
        if view.plan.workers > COLOURS:
            items.append(("w0", f"colours repeat after worker {COLOURS - 1}"))
        if (view.plan.leaf_unit < 0).any():
            items.append(("by-text", "by text: several workers"))
    return element(
        "ul",
        [element("li", element("span", class_=f"swatch {name}", aria_hidden="true"), text) for name, text in items],
        class_="legend",
    )
