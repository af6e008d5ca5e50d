"""Answer one question for a page: what it asks for in words, and the places and texts of the objects of its answer."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import TableReader
from pststream.errors import UsageError
from pststream.questions.answer_table import answer_table
from pststream.questions.ask import answer_question
from pststream.questions.read_questions import Question, read_question_records
from pststream.reports.pages.answer_section import AnsweredQuestion, AnswerRow, describe_time
from pststream.settings import Settings
from pststream.shapes.registry import describe
from pststream.state.home import Home
from pststream.utc_times import from_micros

MAX_ROWS = 500
"""Rows of an answer that are read for a page."""

_COLUMNS = ("rank", "object_id", "ts", "distance_m", "score", "term", "count")


def answer_for_page(home: Home, settings: Settings, record: Mapping[str, Any]) -> AnsweredQuestion:
    """Answer a question with the fields of `record`, up to MAX_ROWS rows.

    Raises UsageError with field and reason if the question is not valid.
    """
    read = read_question_records([record], settings)
    for reject in read.rejects:
        raise UsageError(f"{reject['field']}: {reject['reason']}: {reject['detail']}", "docs/questions.md: Fields")
    began = time.perf_counter()
    question = read.questions[0]
    asked = min(question.parsed.k or MAX_ROWS + 1, MAX_ROWS + 1)
    rows = answer_question(home, settings, replace(question, parsed=replace(question.parsed, k=asked)))
    seconds = time.perf_counter() - began
    answers = answer_table([question], rows).slice(0, MAX_ROWS)
    statistics = answers.column("term_statistics_version").drop_null().to_pylist()[:1]
    weighed = [("Term statistics", f"version {version}") for version in statistics]
    keys = rows.columns["object_key"].to_pylist()[:MAX_ROWS] if "object_key" in rows.columns else []
    objects = _read_objects(home, keys)
    shown = [
        AnswerRow(**row, **(objects.get(keys[place], {}) if keys else {}))
        for place, row in enumerate(answers.select(_COLUMNS).to_pylist())
    ]
    facts, keywords = [*_facts(question, record), *weighed], str(record.get("keywords") or "")
    region, point, more = question.parsed.region, question.parsed.point, len(rows.rank) > MAX_ROWS
    return AnsweredQuestion(question.kind.name, facts, keywords, region, point, shown, more, seconds)


def _read_objects(home: Home, keys: list[int]) -> dict[int, dict[str, Any]]:
    """Return lon, lat and text of objects by key."""
    if not keys:
        return {}
    wanted = pds.field("object_key").isin(keys) & (pds.field("object_key") >= min(keys))
    wanted &= pds.field("object_key") <= max(keys)
    rows = TableReader(home).rows(names.OBJECTS, ("object_key", "lon", "lat", "text"), wanted)
    return {row.pop("object_key"): {**row, "text": row["text"] or ""} for row in rows}


def _facts(question: Question, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a question asks for, in words."""
    parsed, window = question.parsed, question.parsed.window
    facts = [("Kind", question.kind.name)]
    if record.get("keywords"):
        facts.append(("Keywords", str(record["keywords"])))
    if parsed.region is not None:
        facts.append(("Region", describe(parsed.region)))
    if parsed.point is not None:
        facts.append(("Point", f"{parsed.point[0]:.9g}, {parsed.point[1]:.9g} (longitude, latitude)"))
    if parsed.k is not None:
        facts.append(("At most", f"{parsed.k:,}"))
    if "alpha" in question.kind.fields:
        facts.append(("Score", f"alpha {parsed.alpha:g}, distance scale {parsed.distance_scale_m:,.0f} m"))
    if window.objects is not None:
        facts.append(("Window", f"the {window.objects:,} most recent objects"))
    elif window.micros is not None:
        facts.append(("Window", str(record["window"])))
    if question.as_of is not None:
        facts.append(("As of", describe_time(from_micros(question.as_of))))
    if question.version is not None:
        facts.append(("Version", f"{question.version} of the table objects"))
    return facts
