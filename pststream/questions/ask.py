"""Answer questions about the stored objects of a home in this process, without a JVM."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.errors import UsageError
from pststream.ledgers.withdrawals import NONE, withdrawn_objects
from pststream.progress import Progress, StepCounter, no_progress
from pststream.questions.answer_table import ANSWERS, answer_table
from pststream.questions.open_snapshot import greatest_key, open_snapshot
from pststream.questions.read_questions import Question, ReadQuestions, reject_question
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.stored_objects.answer_rows import AnswerRows
from pststream.stored_objects.answerers import ANSWERERS
from pststream.stored_objects.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.stored_objects.question_batch import TimedQuestion

BATCH_QUESTIONS = 500
"""Questions of a batch at most."""

BATCH_ROWS = 2_000_000
"""Rows that the questions of a batch ask for at most, unless it is one question."""


class Answered(NamedTuple):
    """The answers of questions (ANSWERS), the rejects, and the seconds of each step."""

    answers: pa.Table
    rejects: list[dict[str, Any]]
    seconds: dict[str, float]


class _AskedQuestion(NamedTuple):
    """A question with the greatest key of its version, and the objects that count in this version."""

    question: Question
    up_to_key: int
    snapshot: ObjectSnapshot


def answer_questions(home: Home, settings: Settings, read: ReadQuestions, progress: Progress = no_progress) -> Answered:
    """Answer the questions that were read; the answers are in their order.

    A question whose version of `objects` does not exist, or no longer, is one more reject.
    """
    began = time.perf_counter()
    snapshot = open_snapshot(home, settings)
    opened = time.perf_counter()
    asked, rejects = _resolve_versions(home, read, snapshot)
    counter = StepCounter(progress, "answering", "question", len(asked))
    tables, owners = [ANSWERS.empty_table()], [np.empty(0, np.int64)]
    batches = [[(place, asked[place]) for place in places] for places in _batches(asked)]
    # Kernels and Arrow release the interpreter's lock.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for batch, (owner, table) in zip(batches, threads.map(_answer_batch, batches)):
            tables.append(table)
            owners.append(owner)
            counter.add(len(batch))
    order = np.argsort(np.concatenate(owners), kind="stable")
    answers = pa.concat_tables(tables).take(pa.array(order))
    seconds = {"segments": opened - began, "answer": time.perf_counter() - opened}
    return Answered(answers, rejects, seconds)


def answer_question(home: Home, settings: Settings, question: Question) -> AnswerRows:
    """Return the rows of the answer of one question; raises UsageError for a version that does not exist."""
    snapshot = open_snapshot(home, settings)
    version = _open_version(home, question.version, {NONE.numbers: snapshot})
    if isinstance(version, UsageError):
        raise version
    up_to_key, counted = version
    return ANSWERERS[question.kind.name](counted, [TimedQuestion(question.parsed, question.as_of, up_to_key)])


def _answer_batch(batch: list[tuple[int, _AskedQuestion]]) -> tuple[np.ndarray, pa.Table]:
    """Answer questions of one kind about one snapshot; return the place of the question of each row, and the rows."""
    asked = [one for _, one in batch]
    timed = [TimedQuestion(one.question.parsed, one.question.as_of, one.up_to_key) for one in asked]
    rows = ANSWERERS[asked[0].question.kind.name](asked[0].snapshot, timed)
    places = np.array([place for place, _ in batch], np.int64)
    return places[rows.question], answer_table([one.question for one in asked], rows)


def _resolve_versions(
    home: Home, read: ReadQuestions, snapshot: ObjectSnapshot
) -> tuple[list[_AskedQuestion], list[dict[str, Any]]]:
    """Return each question with what its version has, and the rejects."""
    versions: dict[int | None, tuple[int, ObjectSnapshot] | UsageError] = {}
    snapshots = {NONE.numbers: snapshot}
    asked, rejects = [], list(read.rejects)
    for question in read.questions:
        if question.version not in versions:
            versions[question.version] = _open_version(home, question.version, snapshots)
        version = versions[question.version]
        if isinstance(version, UsageError):
            rejects.append(reject_question(question, "version", "unknown_version", question.version, version.args[0]))
        else:
            asked.append(_AskedQuestion(question, *version))
    return asked, sorted(rejects, key=lambda reject: (reject["file"], reject["row"]))


def _open_version(
    home: Home, version: int | None, snapshots: dict[tuple[int, ...], ObjectSnapshot]
) -> tuple[int, ObjectSnapshot] | UsageError:
    """Return the greatest key of a version (None: the newest), and its objects that are not withdrawn by then.

    snapshots: by the numbers of the withdrawals that they leave out; versions with the same ones share a snapshot
    """
    if version is None:
        key, withdrawn = LAST_KEY, withdrawn_objects(home)
    else:
        try:
            key = greatest_key(home, version)
        except UsageError as error:
            return error
        withdrawn = withdrawn_objects(home, up_to=key)
    if withdrawn.numbers not in snapshots:
        snapshots[withdrawn.numbers] = snapshots[NONE.numbers].without(withdrawn.keys)
    return key, snapshots[withdrawn.numbers]


def _batches(asked: Sequence[_AskedQuestion]) -> Iterator[list[int]]:
    """Yield the places of questions of one kind about one snapshot, as many as are answered together."""
    groups: dict[tuple[str, int], list[int]] = {}
    for place, one in enumerate(asked):
        groups.setdefault((one.question.kind.name, id(one.snapshot)), []).append(place)
    for places in groups.values():
        batch: list[int] = []
        rows = 0
        for place in places:
            wanted = asked[place].question.parsed.k or 0
            if batch and (len(batch) >= BATCH_QUESTIONS or rows + wanted > BATCH_ROWS):
                yield batch
                batch, rows = [], 0
            batch.append(place)
            rows += wanted
        yield batch
