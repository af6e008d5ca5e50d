"""Name the arrays of a segment of objects, and of a batch of questions about it, as the kernels take them.

Arrays of a segment (n objects in the order of their Morton codes, m terms of objects, T distinct terms):

    codes uint32[n] ascending; places float64[n,2]: longitude, latitude; times int64[n]: ts, microseconds; keys int64[n]
    offsets int32[n+1], row_terms uint8[m+1,width]: the terms of each object, numbered within the segment
    posting_offsets int32[T+1], postings uint8[m+1,width]: the rows of each term, ascending, and so in Morton order too
        (kernels/questions/codes.py)
    cell_rows int32[4^l+1]: the first row of each cell of level l, and n

Arrays of a batch of q questions:

    piece_offsets int64[q+1], boxes float64[p,4]: disjoint boxes of each region: west, south, east, north
    tests int64[p], number_offsets int64[p+1], numbers float64[]: code (0: none) and numbers of the exact test of a box
    clause_offsets int64[q+1], literal_offsets int64[c+1], literals int32[]: clauses of each question, with the terms
        numbered within the segment, -1 for a term that it does not have
    after int64[q,2], up_to int64[q,2]: ts (microseconds) and key. An object counts if (ts, key) > after, ts <= up_to's
        ts and key <= up_to's key
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel, leaf
from pststream.kernels.questions.codes import LEVELS, find_number, number_at
from pststream.kernels.sort_and_search import find


class ObjectArrays(NamedTuple):
    """See the module's docstring."""

    codes: np.ndarray
    places: np.ndarray
    times: np.ndarray
    keys: np.ndarray
    offsets: np.ndarray
    row_terms: np.ndarray
    posting_offsets: np.ndarray
    postings: np.ndarray
    cell_rows: np.ndarray


class RegionArrays(NamedTuple):
    """The regions of a batch of questions; see the module's docstring."""

    piece_offsets: np.ndarray
    boxes: np.ndarray
    tests: np.ndarray
    number_offsets: np.ndarray
    numbers: np.ndarray


class ClauseArrays(NamedTuple):
    """The clauses of a batch of questions; see the module's docstring."""

    clause_offsets: np.ndarray
    literal_offsets: np.ndarray
    literals: np.ndarray


class Windows(NamedTuple):
    """The windows of a batch of questions; see the module's docstring."""

    after: np.ndarray
    up_to: np.ndarray


class Window(NamedTuple):
    """The window of one question, as four numbers that hot loops keep in registers."""

    after_ts: int
    after_key: int
    up_to_ts: int
    up_to_key: int


@leaf
def window_of(windows: Windows, question: int) -> Window:
    """Return the window of a question of the batch."""
    after, up_to = windows.after, windows.up_to
    return Window(after[question, 0], after[question, 1], up_to[question, 0], up_to[question, 1])


@leaf
def in_window(ts: int, key: int, window: Window) -> bool:
    """Return whether an object counts for a question with this window."""
    after_ts, after_key, up_to_ts, up_to_key = window
    return ts <= up_to_ts and key <= up_to_key and (ts > after_ts or (ts == after_ts and key > after_key))


@leaf
def in_box(box: np.ndarray, lon: float, lat: float) -> bool:
    """Return whether a point is in a box: float64[4], west, south, east, north, with its sides."""
    return box[0] <= lon and lon <= box[2] and box[1] <= lat and lat <= box[3]


@leaf
def has_any(offsets: np.ndarray, row_terms: np.ndarray, row: int, literals: np.ndarray, start: int, stop: int) -> bool:
    """Return whether an object has one of the terms literals[start:stop]."""
    for place in range(offsets[row], offsets[row + 1]):
        term = number_at(row_terms, place)
        for literal in range(start, stop):
            if term == literals[literal]:
                return True
    return False


@leaf
def satisfies_others(
    offsets: np.ndarray,
    row_terms: np.ndarray,
    row: int,
    literal_offsets: np.ndarray,
    literals: np.ndarray,
    first: int,
    stop: int,
    driving: int,
) -> bool:
    """Return whether an object has a term of each of the clauses [first, stop) but the driving one."""
    for clause in range(first, stop):
        if clause != driving and not has_any(
            offsets, row_terms, row, literals, literal_offsets[clause], literal_offsets[clause + 1]
        ):
            return False
    return True


@kernel
def choose_clauses(objects, clauses, asked):
    """Return `choose_clause` of questions of the batch: int64[asked]; `asked` int64[]."""
    chosen = np.empty(len(asked), np.int64)
    for at in range(len(asked)):
        chosen[at] = choose_clause(objects, clauses, asked[at])
    return chosen


@leaf
def choose_clause(objects, clauses, question):
    """Return the clause of a question with the fewest postings, -1 to read all rows, -2 if a clause has none.

    A clause with as many postings as there are rows is not worth reading by its terms.
    """
    best, fewest = -1, len(objects.codes)
    for clause in range(clauses.clause_offsets[question], clauses.clause_offsets[question + 1]):
        postings = count_postings(objects, clauses, clause)
        if postings == 0:
            return -2
        if postings < fewest:
            best, fewest = clause, postings
    return best


@leaf
def count_postings(objects, clauses, clause):
    """Return the number of postings of all terms of a clause."""
    postings = 0
    for place in range(clauses.literal_offsets[clause], clauses.literal_offsets[clause + 1]):
        term = clauses.literals[place]
        if term >= 0:
            postings += objects.posting_offsets[term + 1] - objects.posting_offsets[term]
    return postings


@leaf
def first_row_of(codes: np.ndarray, cell_rows: np.ndarray, code: int) -> int:
    """Return the first row whose code is at least `code`, which is at most 4^LEVELS."""
    shift = 2 * LEVELS
    cells = len(cell_rows) - 1
    while cells > 1:
        cells >>= 2
        shift -= 2
    cell = code >> shift
    if code == cell << shift:
        return cell_rows[cell]
    return find(codes, cell_rows[cell], cell_rows[cell + 1], code)


@leaf
def find_place(objects, low, high, code, listed):
    """Return the first place in [low, high) whose code is at least `code`: of the rows, or of the listed postings."""
    row = first_row_of(objects.codes, objects.cell_rows, code)
    return find_number(objects.postings, low, high, row) if listed else min(max(row, low), high)
