"""Choose rows of tables for a sample by a hash of their key, so that the choice does not depend on files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pststream.base.integer_hash import hash_to_unit
from pststream.state.slices import Slice

SEED = 7


@dataclass(frozen=True)
class SampledRows:
    """The rows that a task chose, and the number of rows that it chose from."""

    rows: pa.Table
    seen: int


def share_of(max_rows: int, rows: int) -> float:
    """Return the share of the rows to choose so that about `max_rows` are chosen at most."""
    return 1.0 if rows <= max_rows else max_rows / rows


def choose_rows(
    key: str,
    schema: pa.Schema,
    share: float,
    read: Callable[[tuple[Slice, ...]], Iterator[pa.RecordBatch]],
    slices: tuple[Slice, ...],
) -> SampledRows:
    """Choose rows by a hash of their key, so that the choice does not depend on the files that they are in."""
    seen, chosen = 0, []
    for rows in read(slices):
        seen += rows.num_rows
        if share < 1.0:
            rows = rows.filter(pa.array(hash_to_unit(rows.column(key).to_numpy(), SEED) < share))
        chosen.append(rows.select(schema.names))
    return SampledRows(pa.Table.from_batches(chosen, schema), seen)


def merge_rows(drawn: list[SampledRows], schema: pa.Schema) -> tuple[pa.Table, float]:
    """Return all chosen rows in the order of their keys, and the number of rows that each of them represents."""
    rows = pa.concat_tables([schema.empty_table(), *(part.rows for part in drawn)])
    by = [(name, "ascending") for name in (schema.names[0], "west", "south") if name in schema.names]
    seen = sum(part.seen for part in drawn)
    return rows.sort_by(by).combine_chunks(), seen / rows.num_rows if rows.num_rows else 1.0
