"""Answer questions block by block, in their order: what is in memory is bounded, whatever the number of rows.

A block is some neighbouring questions that ask for a bounded number of rows together. A question that asks for more is
a block of its own, and is answered a slice of its window at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.search.answer_rows import ANSWERS, AnswerRows, answer_table
from pststream.search.answerers import ANSWERERS
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import (
    TimedQuestion,
    bound_of_segment,
    clauses_of,
    cover,
    limits_of,
    reached,
    regions_of,
    window_bounds,
)
from pststream.search.read_questions import AskedQuestion, CountedObjects, Question


def bound_rows(snapshot: ObjectSnapshot, questions: Sequence[TimedQuestion]) -> np.ndarray:
    """Return how many rows the answer of each question has at most: int64[q]; questions without k have a region."""
    most = limits_of(questions)
    unlimited = np.flatnonzero(most == 0)
    if not len(unlimited):
        return most
    open_ended = [questions[index] for index in unlimited.tolist()]
    after, up_to = window_bounds(snapshot, open_ended)
    regions = regions_of(open_ended)
    cells, clauses = cover(regions.boxes), clauses_of(open_ended)
    for segment in snapshot.segments:
        rows = bound_of_segment(segment, regions, cells, clauses.within(segment))
        asked = reached(segment.bounds, after, up_to)
        most[unlimited[asked]] += rows[asked]
    return most


_BUCKETS = 4_096


class WindowSlice(NamedTuple):
    """The objects with (ts, key) > (after_ts, after_key), ts <= to_ts and key <= to_key."""

    after_ts: int
    after_key: int
    to_ts: int
    to_key: int


def slice_window(snapshot: ObjectSnapshot, low: int, high: int, to_key: int, most: int) -> Iterator[WindowSlice]:
    """Yield slices of the objects with low <= ts <= high and key <= to_key, each with at most `most` objects.

    Together they are all of these objects; each object of a slice is newer, by (ts, key), than those of the next.
    """
    if low > high:
        return
    width = (high - low) // _BUCKETS + 1
    counts = snapshot.count_by_time(low, high, width, to_key).tolist()
    stop, objects = high, 0
    for bucket in reversed(range(len(counts))):
        first = low + bucket * width
        last = min(high, first + width - 1)
        if objects and objects + counts[bucket] > most:
            yield WindowSlice(last, LAST_KEY, stop, to_key)
            stop, objects = last, 0
        objects += counts[bucket]
        if objects > most:
            yield from _slice_bucket(snapshot, first, last, to_key, most)
            stop, objects = first - 1, 0
    if objects:
        yield WindowSlice(low - 1, LAST_KEY, stop, to_key)


def _slice_bucket(snapshot: ObjectSnapshot, low: int, high: int, to_key: int, most: int) -> Iterator[WindowSlice]:
    """Yield slices of a bucket with more than `most` objects: by time, or of one ts by key."""
    if low < high:
        yield from slice_window(snapshot, low, high, to_key, most)
        return
    keys = np.sort(snapshot.keys_at(low, to_key))
    for stop in range(len(keys), 0, -most):
        yield WindowSlice(low, int(keys[max(0, stop - most)]) - 1, low, int(keys[stop - 1]))


BLOCK_QUESTIONS = 1_000
"""Questions of a block at most."""

BLOCK_ROWS = 1_000_000
"""Rows that the questions of a block ask for at most, unless it is one question; objects of a slice at most."""

PLACE = "place"
"""Column of answers with the place of the question."""

PLACED_ANSWERS = pa.schema([pa.field(PLACE, pa.int64()), pa.field("object_key", pa.int64()), *ANSWERS])
"""Columns of answers of blocks; `object_key` is null in rows of terms."""


def bound_rows_of(counted: CountedObjects, asked: Sequence[AskedQuestion]) -> np.ndarray:
    """Return how many rows the answer of each question has at most: int64[q]."""
    most = np.zeros(len(asked), np.int64)
    for positions in group_questions(asked, range(len(asked)), by_kind=False):
        timed = [asked[index].timed for index in positions]
        most[positions] = bound_rows(counted.of(asked[positions[0]].withdrawn), timed)
    return most


def block_size(questions: int, parallelism: int) -> int:
    """Return the questions of a block at most, so that each of `parallelism` threads or tasks at a time has two."""
    return max(1, min(BLOCK_QUESTIONS, -(-questions // (2 * parallelism))))


def make_blocks(wanted_rows: Sequence[int], most_questions: int, most_rows: int | None = None) -> list[range]:
    """Return the places of the questions of each block.

    wanted_rows: how many rows each asks for at most; most_questions, most_rows (None: BLOCK_ROWS): of a block, unless
    it is one question
    """
    most_rows = BLOCK_ROWS if most_rows is None else most_rows
    blocks: list[range] = []
    start = rows = 0
    for index, wanted in enumerate(wanted_rows):
        if index > start and (index - start >= most_questions or rows + wanted > most_rows):
            blocks.append(range(start, index))
            start, rows = index, 0
        rows += wanted
    return [*blocks, range(start, len(wanted_rows))] if len(wanted_rows) else []


def is_sliced(one: AskedQuestion, most_rows: int) -> bool:
    """Whether a question that asks for at most so many rows is answered a slice of its window at a time."""
    return one.question.parsed.k is None and most_rows > BLOCK_ROWS


def answer_block(
    counted: CountedObjects, asked: Sequence[AskedQuestion], block: range, most_rows: Sequence[int]
) -> Iterable[pa.Table]:
    """Return the answers of a block (PLACED_ANSWERS) by question and rank, in one table or, if they are many, in more.

    asked, most_rows: of all questions; block: places among them
    """
    if len(block) == 1 and is_sliced(asked[block[0]], most_rows[block[0]]):
        return answer_in_slices(counted.of(asked[block[0]].withdrawn), asked[block[0]], block[0])
    tables, owners = [PLACED_ANSWERS.empty_table()], [np.empty(0, np.int64)]
    for positions in group_questions(asked, block):
        kind, snapshot = asked[positions[0]].question.kind.name, counted.of(asked[positions[0]].withdrawn)
        rows = ANSWERERS[kind](snapshot, [asked[index].timed for index in positions])
        owners.append(np.array(positions, np.int64)[rows.question])
        tables.append(_placed_answers([asked[index].question for index in positions], rows, owners[-1]))
    order = np.argsort(np.concatenate(owners), kind="stable")
    return [pa.concat_tables(tables).take(pa.array(order))]


def answer_in_slices(snapshot: ObjectSnapshot, one: AskedQuestion, place: int) -> Iterator[pa.Table]:
    """Yield the answer of a question without k, newest objects first."""
    timed, rank = one.timed, 0
    after, up_to = (bounds[0].tolist() for bounds in window_bounds(snapshot, [timed]))
    low = max(after[0] + 1, int(snapshot.bounds[:, 0].min(initial=up_to[0])))
    high = min(up_to[0], int(snapshot.bounds[:, 1].max(initial=low - 1)))
    for part in slice_window(snapshot, low, high, up_to[1], BLOCK_ROWS):
        rows = ANSWERERS[one.question.kind.name](snapshot, [replace(timed, bounds=part)])
        rows, rank = rows._replace(rank=rows.rank + rank), rank + len(rows.rank)
        yield _placed_answers([one.question], rows, np.full(len(rows.rank), place, np.int64))


def _placed_answers(questions: Sequence[Question], rows: AnswerRows, positions: np.ndarray) -> pa.Table:
    keys = rows.columns.get("object_key", pa.nulls(len(positions), pa.int64()))
    return pa.table([pa.array(positions), keys, *answer_table(questions, rows).columns], schema=PLACED_ANSWERS)


def group_questions(asked: Sequence[AskedQuestion], places: Iterable[int], by_kind: bool = True) -> Iterable[list[int]]:
    """Return the places of the questions that are answered together: of one kind, about the same objects."""
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for index in places:
        kind = asked[index].question.kind.name if by_kind else ""
        groups.setdefault((kind, asked[index].withdrawn.numbers), []).append(index)
    return groups.values()
