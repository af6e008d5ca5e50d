"""Count the objects of a group of boxes by term in hash tables: one of the part that all share, one of each rest.

All tables of a group are one array of slots: a slot has the number of its table, a term id and a count. Table g of a
group of g boxes is the shared one.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.questions.packed_numbers import number_at
from pststream.kernels.questions.question_arrays import in_window
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS, split_list

FIRST_SLOTS = 1 << 14


@kernel
def count_in_tables(objects, terms, boxes, around, after, up_to, owners, ids, counts, used):
    """Add the objects of a segment to the tables of a group.

    objects             see kernels/questions/question_arrays.py
    terms               int64[T]: ids of the terms of the segment
    boxes               float64[g,4]: west, south, east, north
    around              float64[4]: around all of them
    after, up_to        int64[2]: ts and key, as in question_arrays.py
    owners, ids, counts int32[s], int64[s], int32[s]: slots, a power of two; owner -1: empty
    used                how many are not empty
    Returns owners, ids and counts, which may be longer, and the number in use.
    """
    spans = np.empty((256, SPAN_COLUMNS), np.int64)
    spans, number = split_list(objects, False, 0, len(objects.codes), around, spans)
    for span in range(number):
        for row in range(spans[span, 0], spans[span, 1]):
            if not in_window(objects.times[row], objects.keys[row], after[0], after[1], up_to[0], up_to[1]):
                continue
            lon, lat = objects.places[row, 0], objects.places[row, 1]
            inside = 0
            for box in range(len(boxes)):
                inside += _has(boxes[box], lon, lat)
            for box in range(len(boxes)):
                # An object that all boxes have counts once, in the shared table.
                shared = inside == len(boxes)
                if inside == 0 or (shared and box):
                    break
                if not shared and not _has(boxes[box], lon, lat):
                    continue
                owner = len(boxes) if shared else box
                for own in range(objects.offsets[row], objects.offsets[row + 1]):
                    if 2 * used >= len(owners):
                        owners, ids, counts = _longer(owners, ids, counts)
                    term = terms[number_at(objects.row_terms, own)]
                    slot = _slot(owners, ids, owner, term)
                    used += owners[slot] < 0
                    owners[slot], ids[slot] = owner, term
                    counts[slot] += 1
    return owners, ids, counts, used


@kernel
def greatest_of_tables(owners, ids, counts, limits):
    """Return the terms of each box whose counts are not less than its k-th greatest.

    limits  int64[g]: k of each box
    Returns offsets int64[g+1], ids int64[n], counts int64[n].
    """
    boxes = len(limits)
    offsets, total = np.zeros(boxes + 1, np.int64), 0
    terms, numbers = np.empty(1024, np.int64), np.empty(1024, np.int64)
    slots, begins = _slots_by_owner(owners, boxes)
    most = begins[boxes + 1] - begins[boxes] + np.diff(begins[: boxes + 1]).max()
    own, sums = np.empty(most, np.int64), np.empty(most, np.int64)
    for box in range(boxes):
        size = 0
        for place in range(begins[box], begins[box + 1]):
            shared = _slot(owners, ids, boxes, ids[slots[place]])
            own[size] = ids[slots[place]]
            sums[size] = counts[slots[place]] + (counts[shared] if owners[shared] >= 0 else 0)
            size += 1
        for place in range(begins[boxes], begins[boxes + 1]):
            if owners[_slot(owners, ids, box, ids[slots[place]])] < 0:
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
def _slots_by_owner(owners, boxes):
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
def _has(box, lon, lat):
    return box[0] <= lon and lon <= box[2] and box[1] <= lat and lat <= box[3]


@kernel
def _slot(owners, ids, owner, term):
    """Return the slot of a term of a table, or the empty one where it belongs; ids are hashes already."""
    mask = len(owners) - 1
    slot = (term ^ (owner * 0x9E3779B1)) & mask
    while owners[slot] >= 0 and (owners[slot] != owner or ids[slot] != term):
        slot = (slot + 1) & mask
    return slot


@kernel
def _longer(owners, ids, counts):
    """Return twice as many slots with the same terms."""
    more = np.full(2 * len(owners), -1, np.int32), np.empty(2 * len(ids), np.int64), np.zeros(2 * len(ids), np.int32)
    for old in range(len(owners)):
        if owners[old] >= 0:
            slot = _slot(more[0], more[1], owners[old], ids[old])
            more[0][slot], more[1][slot], more[2][slot] = owners[old], ids[old], counts[old]
    return more
