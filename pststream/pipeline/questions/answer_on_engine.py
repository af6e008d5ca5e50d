"""Answer many questions by tasks of the engine: split them into blocks and segments, and collect the data files.

The driver keeps the questions, and of each the bounds of its window and three numbers; rows of answers and objects are
in tasks only. The engine is chosen by the estimated seconds of the tasks: few questions are answered in this process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.contract import Engine, Stage
from pststream.pipeline.questions.answer_tasks import (
    TERMS,
    AnswerTask,
    AnswerWriter,
    ResolveTask,
    WrittenBlock,
    answer_alone,
    build_segment,
    resolve_windows,
    send_answers,
    with_bounds,
    write_block,
    write_slices,
)
from pststream.search.answer_blocks import block_size, is_sliced, make_blocks
from pststream.search.asked_questions import AskedQuestion
from pststream.search.open_snapshot import StoredSegments
from pststream.state.data_files import DataFile

SECONDS_OF_TASK = 0.5
"""About the CPU seconds of a full task of 250,000 rows, which weights of tasks are shares of."""

SECONDS_OF_QUESTION = {"range": 2e-5, "knn": 4e-5, "topk": 4e-5, TERMS: 4e-4}
"""About the CPU seconds of a question by kind, for each segment."""

SECONDS_OF_ROW = 2e-6
"""About the CPU seconds to write a row of an answer."""

SECONDS_OF_BUILDING = 2e-6
"""About the CPU seconds to build an object of a segment."""

MAX_SENT_ROWS = 10_000_000
"""Rows that the tasks of a shuffle send at most, unless it is one block."""

MAX_TASK_OBJECTS = 50_000_000
"""Objects of the segments of a task at most: about 6 GB of mapped arrays."""


@dataclass(frozen=True)
class AnsweredPart:
    """The data files of answers, and of each question the rows, the last distance (NaN: none), and the window."""

    files: list[DataFile]
    counts: np.ndarray
    distances: np.ndarray
    bounds: np.ndarray


def build_missing(engine: Engine, segments: StoredSegments, progress: Progress) -> None:
    """Build the segments that this node does not have, one in a task."""
    missing = segments.missing()
    if missing:
        tasks = [_BuildTask(segments, number) for number in missing]
        counter = TaskCounter(progress, Counted("building segments", "object", [segments.rows[n] for n in missing]))
        engine.run_tasks(tasks, _build, counter)


@dataclass(frozen=True)
class _BuildTask:
    segments: StoredSegments
    number: int

    @property
    def weight(self) -> float:
        return self.segments.rows[self.number] * SECONDS_OF_BUILDING / SECONDS_OF_TASK


def _build(task: _BuildTask) -> None:
    build_segment((task.segments, task.number))


def answer_on_engine(
    engine: Engine,
    segments: StoredSegments,
    asked: Sequence[AskedQuestion],
    home: str,
    question_file: int,
    progress: Progress,
) -> AnsweredPart:
    """Answer questions, and write the answers as data files, which are not committed."""
    (windows,) = engine.run_tasks([ResolveTask(segments, tuple(asked))], resolve_windows)
    resolved = tuple(with_bounds(one, bounds) for one, bounds in zip(asked, windows.bounds))
    rows = np.array([one.question.row for one in asked], np.int64)
    most = np.array([one.question.parsed.k or 0 for one in asked], np.int64)
    writer = AnswerWriter(home, question_file, rows, most)
    most_rows = windows.most_rows.tolist()
    blocks = make_blocks(most_rows, block_size(len(asked), engine.parallelism))
    every = tuple(range(len(segments.groups)))
    groups = split_segments(segments.rows, engine.parallelism if len(asked) < engine.parallelism else 1)
    sliced = [block for block in blocks if is_sliced(asked[block[0]], most_rows[block[0]])]
    others = [block for block in blocks if block not in sliced]
    written: list[WrittenBlock] = []
    if sliced:
        tasks = [_task(segments, every, resolved, block, most_rows[block[0]]) for block in sliced]
        written += engine.run_tasks(tasks, partial(write_slices, writer))
    if others and len(groups) == 1:
        tasks = [_task(segments, every, resolved, block) for block in others]
        counter = TaskCounter(progress, Counted("answering", "question", [len(task.asked) for task in tasks]))
        written += engine.run_tasks(tasks, partial(answer_alone, writer), counter)
    elif others:
        written += _answer_by_groups(engine, segments, groups, resolved, others, most_rows, writer)
    return _collect(written, len(asked), windows.bounds)


def _answer_by_groups(
    engine: Engine,
    segments: StoredSegments,
    groups: Sequence[tuple[int, ...]],
    asked: tuple[AskedQuestion, ...],
    blocks: Sequence[range],
    most_rows: Sequence[int],
    writer: AnswerWriter,
) -> list[WrittenBlock]:
    """Answer blocks by tasks for groups of segments, and one for frequent terms; a part merges the rows of a block.

    Some blocks at a time, because the local engine keeps sent rows in memory.
    """
    every, written = tuple(range(len(segments.groups))), []
    others = tuple(kind for kind in SECONDS_OF_QUESTION if kind != TERMS)
    sent = [sum(most_rows[block.start : block.stop]) * len(groups) for block in blocks]
    for some in make_blocks(sent, len(sent), MAX_SENT_ROWS):
        tasks = []
        for part, place in enumerate(some):
            tasks += [_task(segments, numbers, asked, blocks[place], part=part, kinds=others) for numbers in groups]
            tasks.append(_task(segments, every, asked, blocks[place], part=part, kinds=(TERMS,)))
        stage = Stage(len(some), partial(write_block, writer))
        written += engine.run_shuffled([task for task in tasks if task.asked], send_answers, [stage])
    return written


def split_segments(rows: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """Return the numbers of the segments of about `parts` groups, of at most MAX_TASK_OBJECTS if one alone is not more.

    rows: objects of each segment
    """
    most = min(MAX_TASK_OBJECTS, -(-sum(rows) // parts))
    groups: list[list[int]] = [[]]
    for number, count in enumerate(rows):
        if groups[-1] and sum(rows[one] for one in groups[-1]) + count > most:
            groups.append([])
        groups[-1].append(number)
    return [tuple(group) for group in groups]


def _task(
    segments: StoredSegments,
    numbers: tuple[int, ...],
    asked: tuple[AskedQuestion, ...],
    block: range,
    rows: int = 0,
    part: int = 0,
    kinds: tuple[str, ...] = tuple(SECONDS_OF_QUESTION),
) -> AnswerTask:
    """Return the task of the questions of some kinds in a block; rows: how many it writes, if they are very many."""
    places = tuple(place for place in block if asked[place].question.kind.name in kinds)
    mine = tuple(asked[place] for place in places)
    seconds = sum(SECONDS_OF_QUESTION[one.question.kind.name] for one in mine) * len(numbers) + rows * SECONDS_OF_ROW
    return AnswerTask(segments, part, numbers, places, mine, seconds / SECONDS_OF_TASK)


def _collect(written: Sequence[WrittenBlock], questions: int, bounds: np.ndarray) -> AnsweredPart:
    counts, distances = np.zeros(questions, np.int64), np.full(questions, np.nan)
    for one in written:
        counts[one.places], distances[one.places] = one.counts, one.distances
    files = sorted((one.file for one in written if one.file), key=lambda file: file.low["row"])
    return AnsweredPart(files, counts, distances, bounds)
