"""Answer questions about the stored objects of a home in this process, without a JVM."""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from pststream.base.errors import UsageError
from pststream.base.progress import Progress, StepCounter, no_progress
from pststream.search.answer_blocks import PLACE, answer_block, block_size, bound_rows_of, make_blocks
from pststream.search.answer_rows import AnswerRows
from pststream.search.answer_table import ANSWERS
from pststream.search.answerers import ANSWERERS
from pststream.search.asked_questions import AskedQuestion, CountedObjects, open_version, resolve_versions
from pststream.search.open_snapshot import open_snapshot
from pststream.search.read_questions import Question, ReadQuestions
from pststream.settings import Settings
from pststream.state.home import Home


class Answered(NamedTuple):
    """The answers of questions (ANSWERS), the rejects, and the seconds of each step."""

    answers: pa.Table
    rejects: list[dict[str, Any]]
    seconds: dict[str, float]


@dataclass(frozen=True)
class AnswerStream:
    """The answers of questions, a table (ANSWERS) at a time in their order; the rejects; the seconds of each step.

    The seconds of the step `answer` grow while the tables are read.
    """

    tables: Iterator[pa.Table]
    rejects: list[dict[str, Any]]
    seconds: dict[str, float]


def answer_questions(home: Home, settings: Settings, read: ReadQuestions, progress: Progress = no_progress) -> Answered:
    """Answer the questions that were read; the answers are in their order, and all in memory.

    A question whose version of `objects` does not exist, or no longer, is one more reject.
    """
    stream = stream_answers(home, settings, read, progress)
    answers = pa.concat_tables([ANSWERS.empty_table(), *stream.tables])
    return Answered(answers, stream.rejects, stream.seconds)


def stream_answers(
    home: Home, settings: Settings, read: ReadQuestions, progress: Progress = no_progress
) -> AnswerStream:
    """Answer the questions that were read while the tables of the stream are read, as `answer_questions` does."""
    began = time.perf_counter()
    counted = CountedObjects(open_snapshot(home, settings))
    seconds = {"segments": time.perf_counter() - began, "answer": 0.0}
    asked, rejects = resolve_versions(home, read)
    tables = _measured(answer_in_threads(counted, asked, progress), seconds)
    return AnswerStream((table.drop_columns([PLACE]) for table in tables), rejects, seconds)


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
