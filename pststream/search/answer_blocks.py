"""Answer questions block by block, in their order: what is in memory is bounded, whatever the number of rows.

A block is some neighbouring questions that ask for a bounded number of rows together. A question that asks for more is
a block of its own, and is answered a slice of its window at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pststream.search.answer_table import ANSWERS, answer_table
from pststream.search.answerers import ANSWERERS
from pststream.search.asked_questions import AskedQuestion, CountedObjects
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import window_bounds
from pststream.search.row_bounds import bound_rows
from pststream.search.window_slices import slice_window

BLOCK_QUESTIONS = 1_000
"""Questions of a block at most."""

BLOCK_ROWS = 1_000_000
"""Rows that the questions of a block ask for at most, unless it is one question; objects of a slice at most."""

PLACE = "place"
"""Column of answers with the place of the question."""

PLACED_ANSWERS = pa.schema([pa.field(PLACE, pa.int64()), *ANSWERS])
"""Columns of answers of blocks."""


def bound_rows_of(counted: CountedObjects, asked: Sequence[AskedQuestion]) -> np.ndarray:
    """Return how many rows the answer of each question has at most: int64[q]."""
    most = np.zeros(len(asked), np.int64)
    for places in group_questions(asked, range(len(asked)), by_kind=False):
        timed = [asked[place].timed for place in places]
        most[places] = bound_rows(counted.of(asked[places[0]].withdrawn), timed)
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
    for place, wanted in enumerate(wanted_rows):
        if place > start and (place - start >= most_questions or rows + wanted > most_rows):
            blocks.append(range(start, place))
            start, rows = place, 0
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
    for places in group_questions(asked, block):
        kind, snapshot = asked[places[0]].question.kind.name, counted.of(asked[places[0]].withdrawn)
        rows = ANSWERERS[kind](snapshot, [asked[place].timed for place in places])
        owners.append(np.array(places, np.int64)[rows.question])
        tables.append(_with_places(answer_table([asked[place].question for place in places], rows), owners[-1]))
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
        answers = answer_table([one.question], rows._replace(rank=rows.rank + rank))
        rank += len(rows.rank)
        yield _with_places(answers, np.full(len(rows.rank), place, np.int64))


def _with_places(answers: pa.Table, places: np.ndarray) -> pa.Table:
    return answers.add_column(0, PLACED_ANSWERS.field(PLACE), pa.array(places))


def group_questions(asked: Sequence[AskedQuestion], places: Iterable[int], by_kind: bool = True) -> Iterable[list[int]]:
    """Return the places of the questions that are answered together: of one kind, about the same objects."""
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for place in places:
        kind = asked[place].question.kind.name if by_kind else ""
        groups.setdefault((kind, asked[place].withdrawn.numbers), []).append(place)
    return groups.values()
