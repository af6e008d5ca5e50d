"""Number equal index pieces alike, put their rarest CNF clause first, to post them under it, and read their units."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import Csr, csr, take_lists

IDENTITY = ("subscription_key", "west", "south")
"""Columns that identify a piece: the boxes of a subscription are disjoint, so no two share their south-west corner."""


def number_pieces(*batches: pa.RecordBatch, columns: Sequence[str] = IDENTITY) -> list[np.ndarray]:
    """Return a number for each row of each batch (int64[rows]); rows of the same piece have the same number.

    columns: names of the columns by which pieces are the same; the batches have them, as numbers
    """
    values = [np.concatenate([batch.column(name).to_numpy() for batch in batches]) for name in columns]
    order = np.lexsort(values[::-1])
    new = np.zeros(len(order), bool)
    for column in values:
        new[1:] |= np.diff(column[order]) != 0
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new)
    return np.split(numbers, np.cumsum([batch.num_rows for batch in batches])[:-1])


def rarest_clause_first(
    clauses: pa.ListArray, frequency: Callable[[np.ndarray], np.ndarray]
) -> tuple[pa.ListArray, np.ndarray, np.ndarray]:
    """Put the rarest clause of each row first; return the clauses, and the terms of the rarest clause as CSR.

    `clauses` is list<list<int64>>, at least one clause a row. The frequency of a clause is the sum over its terms; of
    equally frequent clauses the shorter is taken, then the earlier. Source: PS2Stream, section IV-C; for the departure
    see matching/segments.py.
    """
    outer, inner, terms = nested_lists(clauses)
    count = len(inner) - 1
    row = np.repeat(np.arange(len(outer) - 1), np.diff(outer))
    sums = np.concatenate([[0], np.cumsum(frequency(terms))])
    order = np.lexsort((np.arange(count), np.diff(inner), sums[inner[1:]] - sums[inner[:-1]], row))
    first = np.zeros(count, bool)
    first[order[outer[:-1]]] = True
    order = np.lexsort((np.arange(count), ~first, row))
    ordered = clauses.flatten().take(pa.array(order))
    ranked = pa.ListArray.from_arrays(pa.array(outer.astype(np.int32)), ordered)
    return ranked, *first_clauses(ranked)


def first_clauses(clauses: pa.ListArray) -> Csr:
    """Return the terms of the first clause of each row of a list<list<int64>>, as CSR."""
    outer, inner, terms = nested_lists(clauses)
    return take_lists((inner, terms), outer[:-1])


def nested_lists(column: pa.ListArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a list<list<int64>> as offsets of the lists and of the inner lists, both from 0, and values: int64."""
    outer = column.offsets.to_numpy().astype(np.int64)
    inner, values = csr(column.flatten())
    return outer - outer[0], inner, values.astype(np.int64, copy=False)


NO_UNIT = -1
"""Stands for a unit that is not recorded."""


def recorded_units(column: pa.Array) -> np.ndarray:
    """Return the units that a plan which shares by subscription has recorded with pieces: int32[n].

    column  `unit` of the index; NO_UNIT stands for null
    """
    return np.asarray(column.fill_null(NO_UNIT).to_numpy(zero_copy_only=False)).astype(np.int32)
