"""Compute the posting, the unit and the worker of a plan that match an object with a subscription, for `explain`.

The rows of the plan decide, and not the kernels that route and match: only the numbering of index cells is shared with
the kernels (`kernels/matching/index_cells.py`).
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import TableReader
from pststream.domain.owners import NO_UNIT
from pststream.domain.plan import SubscriptionPlan
from pststream.kernels.matching import index_cells
from pststream.kinds.contract import MatchQuery, StoredObject, StoredSubscription
from pststream.reports.commands.plans import read_plan
from pststream.shapes.region import Box
from pststream.text.tokenizer import term_id
from pststream.text.words import tokenize


@dataclass(frozen=True)
class IndexCell:
    """A cell of the index; columns count from the west, rows from the south."""

    id: int
    level: int
    column: int
    row: int


def find_index_cell(box: Box, lon: float, lat: float) -> IndexCell:
    """Find the index cell of a point, on the level of a box that contains it."""
    level = index_cells.level_of_box(*box)
    shift = index_cells.MAX_LEVEL - level
    column, row = index_cells.column_of(lon) >> shift, index_cells.row_of(lat) >> shift
    return IndexCell((1 << (2 * level)) | index_cells.interleave(column, row), level, column, row)


class PostingFinder:
    """Finds the postings of matching pairs under one plan."""

    def __init__(self, reader: TableReader, version: int) -> None:
        self.version = version
        row, self.plan, _ = read_plan(reader, version)
        self._vocabulary = row["index_version"]
        self._reader = reader

    def find(self, stored: StoredObject, subscription: StoredSubscription) -> dict[str, Any] | None:
        """Find the posting that matches an object with a subscription that it satisfies; None if no box contains it.

        A subscription is posted under the terms of its rarest clause, in every index cell of each box. The pair is
        emitted by the posting of the first of these terms that the object has.
        """
        posted = cast(MatchQuery, subscription.query).as_posted()
        boxes = [box for box in posted.boxes if _contains(box, stored)]
        if not boxes:
            return None
        words = posted.words
        clause = find_rarest_clause(posted.clauses, self._frequencies(posted.clauses))
        terms = {names.EVERY_OBJECT, *(term_id(word) for word in tokenize(stored.text))}
        term = next(term for term in clause if term in terms)
        cell = find_index_cell(boxes[0], stored.lon, stored.lat)
        if isinstance(self.plan, SubscriptionPlan):
            unit = int(self.plan.owner_units(np.array([subscription.key]), self._recorded_unit(subscription.key))[0])
        else:
            unit = self.plan.find_unit(stored.lon, stored.lat, terms, term)
        return {
            "clause": [words[term] for term in clause],
            "word": words[term],
            "term": term,
            "cell": cell.id,
            "level": cell.level,
            "column": cell.column,
            "row": cell.row,
            "box": list(boxes[0]),
            "unit": unit,
            "worker": int(self.plan.unit_worker[unit]),
            "plan_version": self.version,
        }

    def _recorded_unit(self, key: int) -> np.ndarray:
        """Return the unit that the index records for a subscription, or NO_UNIT: int32[1]."""
        wanted = (pds.field("index_version") == self._vocabulary) & (pds.field("subscription_key") == key)
        rows = self._reader.rows(names.WORKER_INDEX, ("unit",), wanted & pds.field("unit").is_valid())
        return np.array([rows[0]["unit"] if rows else NO_UNIT], np.int32)

    def _frequencies(self, clauses: tuple[tuple[int, ...], ...]) -> dict[int, int]:
        terms = pa.array(sorted({term for clause in clauses for term in clause}), pa.int64())
        wanted = (pds.field("plan_version") == self._vocabulary) & pds.field("term_id").isin(terms)
        rows = self._reader.rows(names.VOCABULARY, ("term_id", "objects"), wanted)
        return {row["term_id"]: row["objects"] for row in rows}


def find_rarest_clause(clauses: tuple[tuple[int, ...], ...], frequencies: dict[int, int]) -> tuple[int, ...]:
    """Return the clause whose terms have the fewest sampled objects in sum; of equal ones the shortest or first."""
    return min(clauses, key=lambda clause: (sum(frequencies.get(term, 0) for term in clause), len(clause)))


def find_stored_fault(stored: StoredObject, subscription: StoredSubscription) -> str | None:
    """Compare stored term ids with the object's text, and stored clauses with the keywords; None if they agree."""
    if sorted(stored.terms) != sorted({term_id(word) for word in tokenize(stored.text)}):
        return "the object's stored terms are not those of its text"
    return subscription.query.find_fault()


def _contains(box: Box, stored: StoredObject) -> bool:
    return box[0] <= stored.lon <= box[2] and box[1] <= stored.lat <= box[3]
