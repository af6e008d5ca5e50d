"""By which posting an object finds a subscription: the clause, the word, the index cell, the unit, the worker.

Worked out from the plan's rows, apart from the kernels that route and match; only cells are numbered by
`kernels/matching/index_cells.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.domain.plan import PartitionPlan
from pststream.kernels.matching import index_cells
from pststream.kinds.contract import StoredObject, StoredSubscription
from pststream.reports.commands.plans import read_plan
from pststream.reports.reading.table_reader import Reader
from pststream.shapes.region import Box
from pststream.text.tokenizer import term_id
from pststream.text.words import tokenize


@dataclass(frozen=True)
class Cell:
    """A cell of the index; columns count from the west, rows from the south."""

    id: int
    level: int
    column: int
    row: int


def cell_of(box: Box, lon: float, lat: float) -> Cell:
    """The cell in which a point meets a box."""
    level = index_cells.level_of_box(*box)
    shift = index_cells.MAX_LEVEL - level
    column, row = index_cells.column_of(lon) >> shift, index_cells.row_of(lat) >> shift
    return Cell((1 << (2 * level)) | index_cells.interleave(column, row), level, column, row)


def unit_of(plan: PartitionPlan, lon: float, lat: float, term: int) -> int:
    """The unit that serves a term at a point."""
    leaf = int(plan.cell_leaf[plan.grid.cell(np.array([lon]), np.array([lat]))[0]])
    whole = int(plan.leaf_unit[leaf])
    if whole >= 0:
        return whole
    start, stop = int(plan.term_offsets[leaf]), int(plan.term_offsets[leaf + 1])
    named = dict(zip(plan.terms[start:stop].tolist(), plan.term_unit[start:stop].tolist()))
    sharers = plan.spread_unit[int(plan.spread_offsets[leaf]) : int(plan.spread_offsets[leaf + 1])].tolist()
    return int(named.get(term, sharers[term % (1 << 64) % len(sharers)]))


class Postings:
    """Postings under one plan."""

    def __init__(self, reader: Reader, version: int) -> None:
        self.version = version
        row, self.plan, _ = read_plan(reader, version)
        self._vocabulary = row["index_version"]
        self._reader = reader

    def of(self, thing: StoredObject, life: StoredSubscription) -> dict[str, Any] | None:
        """The posting by which an object finds a subscription that it satisfies; None if no box holds the object.

        A subscription is posted under its rarest clause, in every cell of each box; the posting of the clause's first
        term that the object has is the one that tells of it.
        """
        posted = life.query.as_posted()
        boxes = [box for box in posted.boxes if _holds(box, thing)]
        if not boxes:
            return None
        words = posted.words
        clause = rarest_clause(posted.clauses, self._frequencies(posted.clauses))
        said = {term_id(word) for word in tokenize(thing.text)}
        term = next(term for term in clause if term in said)
        cell = cell_of(boxes[0], thing.lon, thing.lat)
        unit = unit_of(self.plan, thing.lon, thing.lat, term)
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

    def _frequencies(self, clauses: tuple[tuple[int, ...], ...]) -> dict[int, int]:
        terms = pa.array(sorted({term for clause in clauses for term in clause}), pa.int64())
        wanted = (pds.field("plan_version") == self._vocabulary) & pds.field("term_id").isin(terms)
        rows = self._reader.rows(names.VOCABULARY, ("term_id", "objects"), wanted)
        return {row["term_id"]: row["objects"] for row in rows}


def rarest_clause(clauses: tuple[tuple[int, ...], ...], frequencies: dict[int, int]) -> tuple[int, ...]:
    """The clause whose terms occur in the fewest sampled objects in sum; of equal ones the shorter, then the first."""
    return min(clauses, key=lambda clause: (sum(frequencies.get(term, 0) for term in clause), len(clause)))


def find_stored_fault(thing: StoredObject, life: StoredSubscription) -> str | None:
    """What is wrong if stored term ids are not those of the text or of the query."""
    if sorted(thing.terms) != sorted({term_id(word) for word in tokenize(thing.text)}):
        return "the object's stored terms are not those of its text"
    return life.query.find_fault()


def _holds(box: Box, thing: StoredObject) -> bool:
    return box[0] <= thing.lon <= box[2] and box[1] <= thing.lat <= box[3]
