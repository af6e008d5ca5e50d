"""Count the terms of regions in the hash tables of SSTD's groups: one of what all regions share, one of each rest.

The tables of a group are in one array of slots.
"""

from typing import NamedTuple

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.questions.codes import number_at
from pststream.kernels.questions.question_arrays import ObjectArrays, Window, in_box, in_window
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS, split_list

FIRST_SLOTS = 1 << 14


class Tables(NamedTuple):
    """The tables of a group of g regions, in s slots, a power of two.

    owners  int32[s]  table of each slot: -1: none, g: the shared one
    ids     int64[s]  term id
    counts  int32[s]  count of the term
    """

    owners: np.ndarray
    ids: np.ndarray
    counts: np.ndarray


@kernel
def count_in_tables(
    objects: ObjectArrays, terms: np.ndarray, boxes: np.ndarray, around: np.ndarray, window: Window, tables: Tables,
    used: int,
) -> tuple[Tables, int]:  # fmt: skip
    """Add the objects of a segment to the tables of a group.

    terms   int64[T]: ids of the terms of the segment
    boxes   float64[g,4]: west, south, east, north
    around  float64[4]: around all of them
    used    slots in use
    Returns the tables, which may be longer, and the number of slots in use.
    """
    spans = np.empty((256, SPAN_COLUMNS), np.int64)
    spans, number = split_list(objects, False, 0, len(objects.codes), around, spans)
    for span in range(number):
        for row in range(spans[span, 0], spans[span, 1]):
            if not in_window(objects.times[row], objects.keys[row], window):
                continue
            lon, lat = objects.places[row, 0], objects.places[row, 1]
            inside = 0
            for box in range(len(boxes)):
                inside += in_box(boxes[box], lon, lat)
            for box in range(len(boxes)):
                # An object that all boxes have counts once, in the shared table.
                shared = inside == len(boxes)
                if inside == 0 or (shared and box):
                    break
                if not shared and not in_box(boxes[box], lon, lat):
                    continue
                owner = len(boxes) if shared else box
                for own in range(objects.offsets[row], objects.offsets[row + 1]):
                    if 2 * used >= len(tables.owners):
                        tables = _longer(tables)
                    term = terms[number_at(objects.row_terms, own)]
                    slot = _slot(tables, owner, term)
                    used += tables.owners[slot] < 0
                    tables.owners[slot], tables.ids[slot] = owner, term
                    tables.counts[slot] += 1
    return tables, used


@kernel
def greatest_of_tables(tables: Tables, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the terms of each box whose counts are not less than its k-th greatest.

    limits  int64[g]: k of each box
    Returns offsets int64[g+1], ids int64[n], counts int64[n].
    """
    owners, ids, counts = tables
    boxes = len(limits)
    offsets, total = np.zeros(boxes + 1, np.int64), 0
    terms, numbers = np.empty(1024, np.int64), np.empty(1024, np.int64)
    slots, begins = _slots_by_owner(owners, boxes)
    most = begins[boxes + 1] - begins[boxes] + np.diff(begins[: boxes + 1]).max()
    own, sums = np.empty(most, np.int64), np.empty(most, np.int64)
    for box in range(boxes):
        size = 0
        for place in range(begins[box], begins[box + 1]):
            shared = _slot(tables, boxes, ids[slots[place]])
            own[size] = ids[slots[place]]
            sums[size] = counts[slots[place]] + (counts[shared] if owners[shared] >= 0 else 0)
            size += 1
        for place in range(begins[boxes], begins[boxes + 1]):
            if owners[_slot(tables, box, ids[slots[place]])] < 0:
                own[size], sums[size] = ids[slots[place]], counts[slots[place]]
                size += 1
        least = np.partition(sums[:size], size - limits[box])[size - limits[box]] if size > limits[box] else 1
        for at in range(size):
            if sums[at] >= least:
                if total == len(terms):
                    terms, numbers = np.append(terms, np.empty_like(terms)), np.append(numbers, np.empty_like(numbers))
                terms[total], numbers[total] = own[at], sums[at]
                total += 1
        offsets[box + 1] = total
    return offsets, terms[:total].copy(), numbers[:total].copy()


@kernel
def _slots_by_owner(owners: np.ndarray, boxes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots in use by table, int32[n], and where those of each table begin: int64[boxes+2]."""
    begins = np.zeros(boxes + 2, np.int64)
    for owner in owners:
        if owner >= 0:
            begins[owner + 1] += 1
    begins = np.cumsum(begins)
    slots, ends = np.empty(begins[boxes + 1], np.int32), begins.copy()
    for slot in range(len(owners)):
        if owners[slot] >= 0:
            slots[ends[owners[slot]]] = slot
            ends[owners[slot]] += 1
    return slots, begins


@kernel
def _slot(tables: Tables, owner: int, term: int) -> int:
    """Return the slot of a term of a table, or the empty one where it belongs; ids are hashes already."""
    owners, ids, _ = tables
    mask = len(owners) - 1
    slot = (term ^ (owner * 0x9E3779B1)) & mask
    while owners[slot] >= 0 and (owners[slot] != owner or ids[slot] != term):
        slot = (slot + 1) & mask
    return slot


@kernel
def _longer(tables: Tables) -> Tables:
    """Return twice as many slots with the same terms."""
    owners, ids, counts = tables
    longer = make_tables(2 * len(owners))
    for old in range(len(owners)):
        if owners[old] >= 0:
            slot = _slot(longer, owners[old], ids[old])
            longer.owners[slot], longer.ids[slot], longer.counts[slot] = owners[old], ids[old], counts[old]
    return longer


@kernel
def make_tables(slots: int) -> Tables:
    """Make empty tables."""
    return Tables(np.full(slots, -1, np.int32), np.empty(slots, np.int64), np.zeros(slots, np.int32))
