"""Mark the objects of a segment that answer at least one of many questions, up to a bound on the work."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.questions.question_arrays import choose_clause
from pststream.kernels.questions.rows_in_regions import SPAN_COLUMNS, read_spans, split_list

LIST_WORK = 40
"""Work of one list of postings that is divided into spans, in places read."""


@kernel
def mark_rows(objects, asked, regions, clauses, after, up_to, most_work, marked):
    """Set `marked` (bool[n]) for each object that answers one of the questions; return the work, in places read.

    asked      int64[]  the questions to ask, of those of the batch
    most_work  beyond so much work no question is asked
    objects, regions, clauses, after, up_to   see kernels/questions/question_arrays.py
    """
    spans = np.empty((256, SPAN_COLUMNS), np.int64)
    chosen = np.empty(1024, np.int32)
    rows, work = len(objects.codes), 0
    for question in asked:
        driving = choose_clause(objects, clauses, question)
        if driving == -2:
            continue
        head = clauses.literal_offsets[driving] if driving >= 0 else 0
        lists = clauses.literal_offsets[driving + 1] - head if driving >= 0 else 1
        for number in range(lists):
            low, high = 0, rows
            if driving >= 0:
                term = clauses.literals[head + number]
                if term < 0:
                    continue
                low, high = objects.posting_offsets[term], objects.posting_offsets[term + 1]
            for piece in range(regions.piece_offsets[question], regions.piece_offsets[question + 1]):
                box = regions.boxes[piece]
                spans, parts = split_list(objects.codes, objects.postings, driving >= 0, low, high, box, spans)
                work += LIST_WORK
                for span in range(parts):
                    work += spans[span, 1] - spans[span, 0]
                if work > most_work:
                    return work
                chosen, kept = read_spans(
                    objects, regions, clauses, spans[:parts], question, piece, driving, number,
                    after[question], up_to[question], chosen,
                )  # fmt: skip
                for row in chosen[:kept]:
                    marked[row] = True
    return work
