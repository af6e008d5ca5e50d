"""Answer questions about the stored objects of a home in this process, for commands and pages, without a JVM."""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.progress import Progress, StepCounter, no_progress
from pststream.base.utc_times import from_micros
from pststream.queries.conditions import FIELD
from pststream.queries.shapes.registry import describe
from pststream.reports.pages.answer_section import AnsweredQuestion, AnswerRow, describe_time
from pststream.search.answer_blocks import answer_block, block_size, bound_rows_of, make_blocks
from pststream.search.answer_rows import ASKED, AnswerRows, answer_table, with_attributes
from pststream.search.answerers import ANSWERERS
from pststream.search.open_snapshot import open_snapshot
from pststream.search.read_questions import (
    AskedQuestion,
    CountedObjects,
    Question,
    ReadQuestions,
    open_version,
    read_question_records,
    resolve_versions,
)
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.delta_tables import TableReader


@dataclass(frozen=True)
class AnswerStream:
    """The answers of questions, a table (ASKED) at a time in their order; the rejects; the seconds of each step.

    The seconds of the step `answer` grow while the tables are read.
    """

    tables: Iterator[pa.Table]
    rejects: list[dict[str, Any]]
    seconds: dict[str, float]

    def read_all(self) -> pa.Table:
        """Return all answers in one table."""
        return pa.concat_tables([ASKED.empty_table(), *self.tables])


def stream_answers(
    home: Home, settings: Settings, read: ReadQuestions, progress: Progress = no_progress
) -> AnswerStream:
    """Answer the questions that were read while the tables of the stream are read; the answers are in their order.

    A question whose version of `objects` does not exist, or no longer, is one more reject.
    """
    began = time.perf_counter()
    counted = CountedObjects(open_snapshot(home, settings))
    seconds = {"segments": time.perf_counter() - began, "answer": 0.0}
    asked, rejects = resolve_versions(home, read)
    tables = _measured(answer_in_threads(counted, asked, progress), seconds)
    reader = TableReader(home)
    return AnswerStream((with_attributes(reader, table) for table in tables), rejects, seconds)


def answer_in_threads(
    counted: CountedObjects, asked: Sequence[AskedQuestion], progress: Progress
) -> Iterator[pa.Table]:
    """Yield the answers of all questions (PLACED_ANSWERS), by question and rank; a thread for each core answers."""
    counter = StepCounter(progress, "answering", "question", len(asked))
    most_rows = bound_rows_of(counted, asked).tolist()
    threads = len(os.sched_getaffinity(0))
    blocks = deque(make_blocks(most_rows, block_size(len(asked), threads)))
    waiting: deque[tuple[range, Future[Any]]] = deque()
    # Kernels and Arrow release the interpreter's lock.
    with ThreadPoolExecutor(threads) as pool:
        while blocks or waiting:
            while blocks and len(waiting) <= threads:
                waiting.append((blocks[0], pool.submit(answer_block, counted, asked, blocks[0], most_rows)))
                blocks.popleft()
            block, answers = waiting.popleft()
            yield from answers.result()
            counter.add(len(block))


def answer_question(home: Home, settings: Settings, question: Question) -> AnswerRows:
    """Return the rows of the answer of one question; raises UsageError for a version that does not exist."""
    version = open_version(home, question.version)
    if isinstance(version, UsageError):
        raise version
    one = AskedQuestion(question, *version)
    counted = CountedObjects(open_snapshot(home, settings))
    return ANSWERERS[question.kind.name](counted.of(one.withdrawn), [one.timed])


def _measured(tables: Iterator[pa.Table], seconds: dict[str, float]) -> Iterator[pa.Table]:
    """Yield the tables, and add the time that each takes to the step `answer`."""
    while True:
        began = time.perf_counter()
        table = next(tables, None)
        seconds["answer"] += time.perf_counter() - began
        if table is None:
            return
        yield table


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
        AnswerRow(**row, **(objects.get(keys[index], {}) if keys else {}))
        for index, row in enumerate(answers.select(_COLUMNS).to_pylist())
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
    if parsed.max_distance_m is not None:
        facts.append(("Within", f"{parsed.max_distance_m:,.0f} m"))
    if window.objects is not None:
        facts.append(("Window", f"the {window.objects:,} most recent objects"))
    elif window.micros is not None:
        facts.append(("Window", str(record["window"])))
    if parsed.stop_words is not None:
        facts.append(("Stop words", parsed.stop_words.replace(" ", ", ")))
    if question.where is not None:
        facts.append(("Where", question.where))
    if question.as_of is not None:
        facts.append(("As of", describe_time(from_micros(question.as_of))))
    if question.version is not None:
        facts.append(("Version", f"{question.version} of the table objects"))
    return facts


TYPED_FIELDS = (
    *("keywords", "bbox", "circle", "geometry", "point", "k", "limit", "window", "alpha", "distance_scale_m"),
    *("max_distance_m", "stop_words", "as_of", "version", FIELD),
)
"""Fields of a typed question besides `kind`."""

_NAMES = {"bbox": (), "circle": ("lon", "lat", "radius_m"), "point": ("lon", "lat")}
"""Fields of several numbers: the names of the numbers, or none for a list of four."""


def record_of_texts(given: Mapping[str, str], named: Callable[[str], str]) -> dict[str, Any]:
    """Return the texts as the fields of a question; texts that are not converted are left to its parser.

    named  returns how a user knows a field, for errors
    Raises UsageError for a text that is not the numbers that its field needs.
    """
    record: dict[str, Any] = dict(given)
    for field, parts in _NAMES.items():
        if field in record:
            numbers = _numbers(named(field), record[field], len(parts) or 4)
            record[field] = dict(zip(parts, numbers)) if parts else numbers
    for field in ("k", "limit", "version"):
        if field in record and re.fullmatch(r"-?[0-9]{1,18}", record[field], re.ASCII):
            record[field] = int(record[field])
    for field in ("alpha", "distance_scale_m", "max_distance_m"):
        if field in record:
            record[field] = _numbers(named(field), record[field], 1)[0]
    match = re.fullmatch(r"objects=([0-9]{1,18})", record.get("window", ""), re.ASCII)
    return {**record, "window": {"objects": int(match[1])}} if match else record


def _numbers(name: str, text: str, count: int) -> list[float]:
    """Return comma-separated numbers; raises UsageError."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        expected = "a number is" if count == 1 else f"{count} numbers separated by commas are"
        raise UsageError(f"{name} {text}: {expected} expected")
    return numbers
