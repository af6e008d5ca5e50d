"""Count the subscriptions of a home by kind: those that were inserted, and the live ones among them.

Counts that need no keys filter by the kind: the statistics of row groups with one kind answer them without reading
rows.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import TableReader
from pststream.kinds.registry import DEFAULT_KIND, KINDS
from pststream.sorted_keys import distinct_values, is_among


def count_subscriptions(reader: TableReader, settled: pds.Expression, now: pa.Scalar) -> dict[str, dict[str, int]]:
    """Return {kind: {"live", "inserted"}} for the kinds that have subscriptions.

    settled: filter of the requests of finished ingests
    """
    requests, insertions = reader.dataset(names.REQUESTS), settled & (pds.field("op") == "insert")
    inserted = {kind: int(requests.count_rows(filter=insertions & (pds.field("kind") == kind))) for kind in KINDS}
    live = count_live(reader, settled, now)
    return {kind: {"live": live[kind], "inserted": count} for kind, count in inserted.items() if count}


def count_live(reader: TableReader, settled: pds.Expression, now: pa.Scalar) -> dict[str, int]:
    """Count the subscriptions with start <= now < end by kind. Keeps the keys of deleted ones in memory, 8 bytes each.

    settled: see `count_subscriptions`
    """
    begun, expires = settled & (pds.field("effective_at") <= now), pds.field("expires_at")
    columns = ["subscription_key"]
    deletions = reader.batches(names.REQUESTS, columns, begun & (pds.field("op") == "delete"))
    parts = [batch.column(0).to_numpy() for batch in deletions]
    deleted = distinct_values(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    lasting = begun & (pds.field("op") == "insert") & (expires.is_null() | (expires > now))
    if not len(deleted):
        requests = reader.dataset(names.REQUESTS)
        return {kind: int(requests.count_rows(filter=lasting & (pds.field("kind") == kind))) for kind in KINDS}
    live = Counter[str]()
    for batch in reader.batches(names.REQUESTS, [*columns, "kind"], lasting):
        lives = ~is_among(batch.column(0).to_numpy(), deleted)
        for stored in batch.column(1).filter(pa.array(lives)).value_counts().to_pylist():
            live[stored["values"]] += stored["counts"]
    return {kind: live[kind] for kind in KINDS}


def describe_kinds(by_kind: Mapping[str, Mapping[str, int]]) -> str:
    """Return the live subscriptions of each kind as text, if there are other kinds than `range`."""
    if not by_kind.keys() - {DEFAULT_KIND}:
        return ""
    return "; " + ", ".join(f"{counts['live']:,} {kind}" for kind, counts in by_kind.items()) + " live"
