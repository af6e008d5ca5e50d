"""Define the columns of `batches` that count by kind what a batch does to answers of subscriptions with memory."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

Counts = Mapping[str, int]
"""Numbers by the name of the kind."""


@dataclass
class AnswerCounts:
    """Counts by the name of the kind; the fields are columns of `batches`.

    candidates   pairs of an object and a subscription whose answer it may enter
    changes      rows that entered or left answers
    evaluations  answers computed from the stored objects; of `frequent_terms`, reports made, corrected or retracted
    """

    candidates: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    evaluations: Counter[str] = field(default_factory=Counter)


COLUMNS = ("candidates", "changes", "evaluations")


def ledger_columns(parts: Iterable[AnswerCounts]) -> dict[str, list[tuple[str, int]]]:
    """Return the sums of counts as values of the columns, without kinds that have no rows."""
    sums = {name: Counter[str]() for name in COLUMNS}
    for part in parts:
        for name, counts in sums.items():
            counts.update(getattr(part, name))
    return {name: sorted((+counts).items()) for name, counts in sums.items()}


def sum_counts(batches: pa.Table) -> dict[str, Counts]:
    """Return the sums of the columns over rows of `batches`, by column and kind."""
    return {name: _sum(batches.column(name)) for name in COLUMNS}


def _sum(column: pa.ChunkedArray) -> Counts:
    sums = Counter[str]()
    for chunk in column.chunks:
        first, stop = chunk.offsets[0].as_py(), chunk.offsets[-1].as_py()
        pairs = pa.table({"kind": chunk.keys[first:stop], "count": chunk.items[first:stop]})
        grouped = pairs.group_by("kind").aggregate([("count", "sum")])
        sums.update(dict(zip(*(grouped.column(name).to_pylist() for name in ("kind", "count_sum")), strict=True)))
    return dict(sums)
