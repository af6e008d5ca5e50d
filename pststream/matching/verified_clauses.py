"""Test the clauses with phrases or exclusions of subscriptions at candidate pairs, and keep the phrases to look for.

The index holds the required words of a subscription alone. Objects have the terms of their phrases where they are read,
beside those of their words (`queries/text/phrases.py`); phrases that no live subscription has are not looked for.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from pststream.base.arrays import find_among, offsets_of
from pststream.base.arrow_columns import Csr, csr, lists, take_lists
from pststream.kernels.matching.verify_clauses import verify_clauses
from pststream.kernels.parsing.phrases import add_terms
from pststream.matching.segments import Segment
from pststream.queries.text.phrases import PhraseTable, split_texts


class VerifiedClauses(NamedTuple):
    """The verified clauses of subscriptions.

    keys       int64[n]     subscription keys, ascending
    clauses    int64[n+1]   slice of the clauses of each
    literals   int64[c+1]   slice of the literals of each clause
    values     int64[]      literals (kernels/matching/verify_clauses.py)
    """

    keys: np.ndarray
    clauses: np.ndarray
    literals: np.ndarray
    values: np.ndarray

    @classmethod
    def of_segments(cls, segments: Sequence[Segment]) -> Self:
        """Return the clauses of all subscriptions of some segments, each once."""
        nothing = np.empty(0, np.int64)
        keys, first = np.unique(np.concatenate([nothing, *(one.verified_keys for one in segments)]), return_index=True)
        clauses = offsets_of(np.concatenate([nothing, *(np.diff(one.verified_clauses) for one in segments)]))
        literals = offsets_of(np.concatenate([nothing, *(np.diff(one.verified_literals) for one in segments)]))
        values = np.concatenate([nothing, *(one.verified for one in segments)])
        clause_offsets, clause = take_lists((clauses, np.arange(len(literals) - 1)), first)
        return cls(keys, clause_offsets, *take_lists((literals, values), clause))

    def hold(self, keys: np.ndarray, objects: np.ndarray, terms: Csr) -> np.ndarray:
        """Return whether the clauses of each pair hold, as those of a subscription without any do: bool[n]. Some
        subscription has clauses.

        keys, objects   int64[n] each          subscription key and object of each pair
        terms           int64[o+1], int64[]    ascending terms of each object, with those of its phrases
        """
        row, has_clauses = find_among(keys, self.keys)
        return np.asarray(verify_clauses(objects, np.where(has_clauses, row, -1), *terms, *self[1:]))


def join_phrases(tables: Sequence[PhraseTable], segments: Iterable[Segment]) -> list[PhraseTable]:
    """Return the phrases of some tables and segments, in tables of falling size, so that a new segment does not sort
    all phrases again.
    """
    joined = list(tables)
    for segment in segments:
        if len(segment.phrases):
            joined.append(PhraseTable(segment.phrase_words, segment.phrases))
        while len(joined) > 1 and len(joined[-2]) < 2 * len(joined[-1]):
            joined[-2:] = [joined[-2].joined(joined[-1])]
    return joined


TEXT_COLUMNS = ("text", "text_breaks")
"""Columns of `objects` in which phrases are sought."""


def with_phrases(objects: pa.RecordBatch, tables: Sequence[PhraseTable]) -> pa.RecordBatch:
    """Return rows of `objects` in which `terms` has the terms of phrases too, without TEXT_COLUMNS."""
    offsets, terms = csr(objects.column("terms"))
    for table in tables:
        rows = table.may_have(offsets, terms)
        some = objects.select(TEXT_COLUMNS).take(pa.array(rows))
        owners, phrases = table.find(split_texts(some.column("text"), some.column("text_breaks")))
        if len(owners):
            offsets, terms = add_terms(offsets, terms, rows[owners], phrases)
    place = objects.schema.get_field_index("terms")
    changed = lists(offsets, terms).cast(objects.schema.field(place).type)
    return objects.set_column(place, objects.schema.field(place), changed).drop_columns(list(TEXT_COLUMNS))
