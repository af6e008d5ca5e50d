"""Answer many questions by tasks of the engine: split them into blocks and segments, and collect the data files.

The driver keeps the questions, and of each the bounds of its window and three numbers; rows of answers and objects are
in tasks only. The engine is chosen by the estimated seconds of the tasks: few questions are answered in this process.

The tasks of a block send the best rows of their segments, with what orders them, to the part of the block, which keeps
the k best of each question and writes them as a data file. Frequent terms are counted over all segments by one task. A
question without k that may have very many rows is a task of its own, which writes a slice of its window at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.contract import Engine, ReceivedRows, SentRows, Stage
from pststream.search.answer_blocks import (
    PLACE,
    PLACED_ANSWERS,
    answer_in_slices,
    block_size,
    bound_rows_of,
    group_questions,
    is_sliced,
    make_blocks,
)
from pststream.search.answer_rows import ANSWERS, AnswerRows, answer_table
from pststream.search.answerers import ANSWERERS
from pststream.search.best_objects import ranks
from pststream.search.open_snapshot import StoredSegments
from pststream.search.question_batch import window_bounds
from pststream.search.read_questions import AskedQuestion, CountedObjects
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.tables import TABLES

TERMS = "frequent_terms"
"""The kind whose answers are counts over all segments."""

PARTIAL = pa.schema(
    [pa.field(PLACE, pa.int64()), pa.field("sort_value", pa.float32()), pa.field("object_key", pa.int64()), *ANSWERS]
)
"""Rows that a task sends: those of the answers, and the value and key that order them."""


@dataclass(frozen=True)
class ResolveTask:
    """Questions whose windows are to be resolved; they depend on the objects of all segments."""

    segments: StoredSegments
    asked: tuple[AskedQuestion, ...]
    weight: float = 0.0


@dataclass(frozen=True)
class ResolvedWindows:
    """For each question the bounds of its window, ts and key after which and up to which: int64[q,4]; and how many rows
    its answer has at most: int64[q].
    """

    bounds: np.ndarray
    most_rows: np.ndarray


@dataclass(frozen=True)
class AnswerTask:
    """Questions of a block about some segments.

    part     number of the block
    numbers  of the segments
    places   of the questions among all
    asked    the questions, with resolved windows
    """

    segments: StoredSegments
    part: int
    numbers: tuple[int, ...]
    places: tuple[int, ...]
    asked: tuple[AskedQuestion, ...]
    weight: float


@dataclass(frozen=True)
class AnswerWriter:
    """What a part needs to write the answers of its block.

    question_file  number of the file
    rows  rows of all questions in the file
    most  greatest number of rows of each answer, 0: no limit
    """

    home: str
    question_file: int
    rows: np.ndarray
    most: np.ndarray


@dataclass(frozen=True)
class WrittenBlock:
    """The data file with the answers of a block, and for each question that has rows: place, rows, last distance."""

    file: DataFile | None
    places: np.ndarray
    counts: np.ndarray
    distances: np.ndarray


def resolve_windows(task: ResolveTask) -> ResolvedWindows:
    """Return the windows of questions, and bounds of their rows."""
    counted = _open(task.segments, tuple(range(len(task.segments.groups))))
    bounds = np.empty((len(task.asked), 4), np.int64)
    for positions in group_questions(task.asked, range(len(task.asked)), by_kind=False):
        timed = [task.asked[position].timed for position in positions]
        bounds[positions] = np.hstack(window_bounds(counted.of(task.asked[positions[0]].withdrawn), timed))
    return ResolvedWindows(bounds, bound_rows_of(counted, task.asked))


def send_answers(task: AnswerTask) -> Iterator[SentRows]:
    """Answer the questions of a task, and send the rows to the part of their block."""
    counted = _open(task.segments, task.numbers)
    for positions in group_questions(task.asked, range(len(task.asked))):
        questions = [task.asked[position] for position in positions]
        kind, snapshot = questions[0].question.kind.name, counted.of(questions[0].withdrawn)
        rows = ANSWERERS[kind](snapshot, [one.timed for one in questions])
        owner = np.array([task.places[position] for position in positions], np.int64)[rows.question]
        for part in _partial_rows(questions, rows, owner).to_batches():
            yield task.part, 0, part


def _partial_rows(questions: Sequence[AskedQuestion], rows: AnswerRows, owner: np.ndarray) -> pa.Table:
    """Return rows of answers with what orders them; of terms the rank does."""
    answers = answer_table([one.question for one in questions], rows)
    order = {
        PLACE: pa.array(owner),
        "sort_value": rows.columns.get("sort_value", pa.array(rows.rank.astype(np.float32))),
        "object_key": rows.columns.get("object_key", pa.array(np.zeros(len(owner), np.int64))),
    }
    columns = {**order, **dict(zip(answers.column_names, answers.columns))}
    return pa.table(columns).select(PARTIAL.names).cast(PARTIAL)


def write_block(writer: AnswerWriter, part: int, received: ReceivedRows) -> WrittenBlock:
    """Merge the rows that tasks have sent for a block, and write them as a data file."""
    rows = pa.Table.from_batches([batch for _, batch in received], PARTIAL)
    position, value, key = (rows.column(name).to_numpy() for name in (PLACE, "sort_value", "object_key"))
    times = rows.column("ts").cast(pa.int64()).fill_null(0).to_numpy()
    order = np.lexsort((-key, -times, value, position))
    rank, most = ranks(position[order]), writer.most[position[order]]
    kept = (most == 0) | (rank <= most)
    answers = rows.take(pa.array(order[kept]))
    answers = answers.set_column(answers.schema.get_field_index("rank"), "rank", pa.array(rank[kept]))
    return write_rows(writer, [answers.select(PLACED_ANSWERS.names)])


def answer_alone(writer: AnswerWriter, task: AnswerTask) -> WrittenBlock:
    """Answer a block by one task, and write its rows as a data file."""
    return write_block(writer, task.part, ((tag, rows) for _, tag, rows in send_answers(task)))


def write_slices(writer: AnswerWriter, task: AnswerTask) -> WrittenBlock:
    """Answer the one question of a task, and write its rows, a slice of its window after the other."""
    counted, one = _open(task.segments, task.numbers), task.asked[0]
    return write_rows(writer, answer_in_slices(counted.of(one.withdrawn), one, task.places[0]))


def write_rows(writer: AnswerWriter, tables: Iterable[pa.Table]) -> WrittenBlock:
    """Write answers of neighbouring questions (PLACED_ANSWERS), in their order, as a data file."""
    home = Home(writer.home)
    file = FileWriter(home.table(names.QUESTION_ANSWERS), TABLES[names.QUESTION_ANSWERS].schema)
    counts, distances = np.zeros(len(writer.rows), np.int64), np.full(len(writer.rows), np.nan)
    for table in tables:
        for rows in table.to_batches(max_chunksize=65_536):
            positions = rows.column(PLACE).to_numpy()
            np.add.at(counts, positions, 1)
            distances[positions] = rows.column("distance_m").to_numpy(zero_copy_only=False)
            numbered = {
                "question_file": pa.array(np.full(len(positions), writer.question_file)),
                "row": pa.array(writer.rows[positions]),
            }
            own = {name: rows.column(name) for name in rows.schema.names if name != PLACE}
            own["object_key"] = pc.if_else(own["object_id"].is_valid(), own["object_key"], pa.scalar(None, pa.int64()))
            file.write(pa.RecordBatch.from_pydict({**numbered, **own}))
    answered = np.flatnonzero(counts)
    return WrittenBlock(file.close(), answered, counts[answered], distances[answered])


@lru_cache(maxsize=4)
def _open(segments: StoredSegments, numbers: tuple[int, ...]) -> CountedObjects:
    return CountedObjects(segments.open(numbers))


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
        counter = TaskCounter(progress, Counted("building segments", "object", sum(segments.rows[n] for n in missing)))
        engine.run_tasks(tasks, _build, counter)


@dataclass(frozen=True)
class _BuildTask:
    segments: StoredSegments
    number: int

    @property
    def weight(self) -> float:
        return self.segments.rows[self.number] * SECONDS_OF_BUILDING / SECONDS_OF_TASK


def _build(task: _BuildTask) -> None:
    """Build a segment on the node that runs this, unless it has it."""
    task.segments.open([task.number])


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
    resolved = tuple(one._replace(bounds=tuple(bounds)) for one, bounds in zip(asked, windows.bounds.tolist()))
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
        counter = TaskCounter(progress, Counted("answering", "question", sum(len(task.asked) for task in tasks)))
        written += engine.run_tasks(tasks, partial(answer_alone, writer), counter)
    elif others:
        written += _answer_by_groups(engine, segments, groups, resolved, others, most_rows, writer)
    counts, distances = np.zeros(len(asked), np.int64), np.full(len(asked), np.nan)
    for one in written:
        counts[one.places], distances[one.places] = one.counts, one.distances
    files = sorted((one.file for one in written if one.file), key=lambda file: file.low["row"])
    return AnsweredPart(files, counts, distances, windows.bounds)


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
        for part, index in enumerate(some):
            tasks += [_task(segments, numbers, asked, blocks[index], part=part, kinds=others) for numbers in groups]
            tasks.append(_task(segments, every, asked, blocks[index], part=part, kinds=(TERMS,)))
        stage = Stage(len(some), partial(write_block, writer))
        written += engine.run_shuffled([task for task in tasks if task.asked], send_answers, [stage])
    return written


def split_segments(rows: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """Return the numbers of the segments of about `parts` groups, of at most MAX_TASK_OBJECTS if one alone is not more.

    rows: objects of each segment
    """
    most = min(MAX_TASK_OBJECTS, -(-sum(rows) // parts))
    groups: list[list[int]] = [[]]
    for ordinal, count in enumerate(rows):
        if groups[-1] and sum(rows[one] for one in groups[-1]) + count > most:
            groups.append([])
        groups[-1].append(ordinal)
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
    positions = tuple(position for position in block if asked[position].question.kind.name in kinds)
    mine = tuple(asked[position] for position in positions)
    seconds = sum(SECONDS_OF_QUESTION[one.question.kind.name] for one in mine) * len(numbers) + rows * SECONDS_OF_ROW
    return AnswerTask(segments, part, numbers, positions, mine, seconds / SECONDS_OF_TASK)
