"""Answer questions about the stored objects of a home in this process, without a JVM."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.errors import UsageError
from pststream.progress import Progress, StepCounter, no_progress
from pststream.questions.answer_table import ANSWERS, answer_table
from pststream.questions.open_snapshot import greatest_key, open_snapshot
from pststream.questions.read_questions import Question, ReadQuestions, reject_question
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.stored_objects.answerers import ANSWERERS
from pststream.stored_objects.object_snapshot import LAST_KEY
from pststream.stored_objects.question_batch import TimedQuestion

BATCH_QUESTIONS = 1_000
"""Questions of a batch at most."""

BATCH_ROWS = 2_000_000
"""Rows that the questions of a batch ask for at most, unless it is one question."""


class Answered(NamedTuple):
    """The answers of questions (ANSWERS), the rejects, and the seconds of each step."""

    answers: pa.Table
    rejects: list[dict[str, Any]]
    seconds: dict[str, float]


def answer_questions(home: Home, settings: Settings, read: ReadQuestions, progress: Progress = no_progress) -> Answered:
    """Answer the questions that were read; the answers are in their order.

    A question whose version of `objects` does not exist, or no longer, is one more reject.
    """
    began = time.perf_counter()
    snapshot = open_snapshot(home, settings)
    opened = time.perf_counter()
    questions, rejects = _with_versions(home, read)
    counter = StepCounter(progress, "answering", "question", len(questions))
    tables, owners = [ANSWERS.empty_table()], [np.empty(0, np.int64)]
    for places in _batches([question for question, _ in questions]):
        some = [questions[place][0] for place in places]
        timed = [TimedQuestion(one.parsed, one.as_of, questions[place][1]) for one, place in zip(some, places)]
        rows = ANSWERERS[some[0].kind.name](snapshot, timed)
        tables.append(answer_table(some, rows))
        owners.append(np.array(places, np.int64)[rows.question])
        counter.add(len(places))
    order = np.argsort(np.concatenate(owners), kind="stable")
    answers = pa.concat_tables(tables).take(pa.array(order))
    seconds = {"segments": opened - began, "answer": time.perf_counter() - opened}
    return Answered(answers, rejects, seconds)


def _with_versions(home: Home, read: ReadQuestions) -> tuple[list[tuple[Question, int]], list[dict[str, Any]]]:
    """Return each question with the greatest key of its version, and the rejects."""
    keys: dict[int | None, int | UsageError] = {None: LAST_KEY}
    questions, rejects = [], list(read.rejects)
    for question in read.questions:
        if question.version is not None and question.version not in keys:
            try:
                keys[question.version] = greatest_key(home, question.version)
            except UsageError as error:
                keys[question.version] = error
        key = keys[question.version]
        if isinstance(key, UsageError):
            rejects.append(reject_question(question, "version", "unknown_version", question.version, str(key.args[0])))
        else:
            questions.append((question, key))
    return questions, sorted(rejects, key=lambda reject: (reject["file"], reject["row"]))


def _batches(questions: Sequence[Question]) -> Iterator[list[int]]:
    """Yield the places of questions of one kind, as many as are answered together."""
    for kind in dict.fromkeys(question.kind.name for question in questions):
        batch: list[int] = []
        rows = 0
        for place, question in enumerate(questions):
            if question.kind.name != kind:
                continue
            wanted = question.parsed.k or 0
            if batch and (len(batch) >= BATCH_QUESTIONS or rows + wanted > BATCH_ROWS):
                yield batch
                batch, rows = [], 0
            batch.append(place)
            rows += wanted
        yield batch
