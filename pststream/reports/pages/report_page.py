"""Write the report (`pststream report`): one self-contained HTML file of totals, plan map, batches, some matches."""

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.queries.kinds.registry import kinds_with_answers
from pststream.reports.commands.explain_rows import read_first_insertions
from pststream.reports.pages import plan_sections
from pststream.reports.pages.answer_section import AnsweredQuestion, prepare_answer, prepare_matches
from pststream.reports.pages.render_page import render_page
from pststream.reports.pages.standing_section import StandingSection, prepare_standing
from pststream.reports.plots.plan_map import draw_plan_map
from pststream.reports.reading.answer_view import asked_answer, read_answer_views
from pststream.reports.reading.home_figures import BatchHistory, read_batch_history
from pststream.reports.reading.plan_view import MeasuredLoads, PlanView, read_loads, read_plan
from pststream.reports.reading.samples import MatchView, RejectView, sample_matches, sample_points, summarize_rejects
from pststream.tables.delta_tables import HomeFolder, TableReader
from pststream.tables.ledgers import LedgerHistory

ROWS_OF_ANSWER = 5
"""Rows that the page lists of each answer."""

_FIRST_OF_KIND, _SHOWN_OF_KIND = 8, 2
"""Subscriptions with memory whose answers are read, and those that the page shows, of each kind."""


@dataclass(frozen=True)
class Report:
    """What the page shows."""

    home: str
    made_at: dt.datetime
    history: BatchHistory
    plan: PlanView | None
    loads: MeasuredLoads | None
    topk: dict[str, Any] | None
    points: np.ndarray
    matches: list[MatchView]
    rejects: list[RejectView]
    problems: list[str]
    answers: Sequence[AnsweredQuestion] = ()
    standing: Sequence[StandingSection] = ()

    @property
    def empty(self) -> bool:
        """Whether the home contains nothing yet."""
        totals = self.history.totals
        return not (totals.objects or totals.requests or self.plan or self.rejects or self.history.batches)


def write_report(
    home: str | os.PathLike[str], out: str | os.PathLike[str], answers: Sequence[AnsweredQuestion] = ()
) -> dict[str, object]:
    """Write the page on `home` to the file `out`; the section of a missing or empty table is empty.

    answers  questions that were asked about the home; without any the page has no section of them
    Returns the path of the page, its size, and the totals it shows.
    """
    report = replace(read_report(str(home)), answers=answers)
    page = render_report(report)
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, "utf-8")
    totals = report.history.totals
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
    """Read the data of the page: the whole ledgers, and samples or counts of all other tables."""
    tables = TableReader(HomeFolder(home), tolerant=True)
    history = read_batch_history(tables)
    plan = read_plan(tables)
    loads = read_loads(tables, plan) if plan is not None else None
    topk = plan_sections.read_topk(tables, plan)
    points, matches, rejects = sample_points(tables), sample_matches(tables), summarize_rejects(tables)
    standing = tables.tolerate(names.ANSWER_LOG, lambda: _read_standing(tables), list[StandingSection]())
    now = utc_now()
    return Report(home, now, history, plan, loads, topk, points, matches, rejects, tables.problems, standing=standing)


def _read_standing(tables: TableReader) -> list[StandingSection]:
    """Read the answers of some of the first subscriptions of each kind with memory; those with rows come first."""
    sections, applied = [], LedgerHistory(tables.strict).requests_applied
    for kind in kinds_with_answers():
        first = read_first_insertions(tables.strict, kind.name, _FIRST_OF_KIND)
        readable = [one for one in first if one.query.is_readable()]
        views = read_answer_views(tables.strict, [asked_answer(one, applied) for one in readable])
        shown = sorted(zip(readable, views, strict=True), key=lambda pair: not pair[1].rows)[:_SHOWN_OF_KIND]
        sections += [prepare_standing(subscription, view, ROWS_OF_ANSWER) for subscription, view in shown]
    return sections


def render_report(report: Report) -> str:
    """Render the page as HTML."""
    plan_map = draw_plan_map(report.plan, report.loads, report.points, report.matches)
    topk = plan_sections.prepare_topk(report.topk, plan_map.projection)
    dots = [
        ("dot objects-dot", plan_sections.sampled(len(report.points), "object")),
        ("dot match-dot", plan_sections.sampled(len(report.matches), "match", "matches")),
        plan_sections.CITIES,
    ]
    return render_page(
        "report.html",
        report=report,
        plan_note=plan_sections.describe_plan(report.plan),
        map=plan_map,
        legend=[*dots, *plan_sections.plan_items(report.plan), *plan_sections.topk_items(topk)],
        balance=plan_sections.prepare_balance(report.plan, report.loads) if report.plan is not None else None,
        topk=topk,
        batches=plan_sections.prepare_batches(report.history),
        answers=[prepare_answer(answer, ROWS_OF_ANSWER) for answer in report.answers],
        standing=report.standing,
        matches=prepare_matches(report.matches, plan_map.projection),
    )
