"""Pieces of subscriptions: the rarest clause first, one number for each piece."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.plans.pieces import IDENTITY, number_pieces, rarest_clause_first

CLAUSES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.lists(CLAUSES, max_size=6), st.lists(st.integers(0, 5), min_size=10, max_size=10), st.integers(0, 2))
def test_the_rarest_clause_comes_first(rows, frequency, skip):
    array = pa.array(rows, pa.list_(pa.list_(pa.int64()))).slice(skip)
    ordered, offsets, terms = rarest_clause_first(array, lambda ids: np.array(frequency)[ids] if len(ids) else ids)
    for place, clauses in enumerate(rows[skip:]):
        rarest = min(clauses, key=lambda clause: (sum(frequency[t] for t in clause), len(clause)))
        rest = list(clauses)
        rest.remove(rarest)
        assert ordered[place].as_py() == [rarest, *rest]
        assert terms[offsets[place] : offsets[place + 1]].tolist() == rarest


CORNERS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-180.0, 0.0, -0.0, 1.5]), st.sampled_from([0.0, 2.0])))


@settings(max_examples=200, deadline=None)
@given(st.lists(CORNERS, min_size=1, max_size=3))
def test_rows_of_the_same_piece_have_the_same_number(batches):
    numbers = number_pieces(
        *(
            pa.RecordBatch.from_arrays(
                [
                    pa.array([row[at] for row in rows], kind)
                    for at, kind in enumerate((pa.int64(), pa.float64(), pa.float64()))
                ],
                names=IDENTITY,
            )
            for rows in batches
        )
    )
    assert [len(part) for part in numbers] == [len(rows) for rows in batches]
    number_of = {}
    for row, number in zip((row for rows in batches for row in rows), np.concatenate(numbers).tolist()):
        assert number_of.setdefault(row, number) == number
    assert len(set(number_of.values())) == len(number_of)
