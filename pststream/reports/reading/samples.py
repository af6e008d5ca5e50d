"""Sample the large tables for the pages: points of objects, matched pairs, examples of rejected rows by reason."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import REQUEST_COLUMNS, from_columns
from pststream.tables.delta_tables import TableReader
from pststream.tables.owners import ID_COLUMNS, show_id

POINTS = 4_000
PAIRS = 160
_FILES = 12
_ROWS_OF_FILE = 400
_KEYS_OF_ROW = 8
_PAIRS_OF_SUBSCRIPTION = 4
_BLOCK_BITS = 17
"""A block of the log has 2^17 rows, like a row group of a data file; reading one row reads its whole row group."""
_BLOCKS = 4
_EXAMPLES = 4
_EXAMPLE_ROWS = 200_000
_MAX_TEXT = 400

Pair = tuple[int, int, str, int]
"""Object key, subscription key, object id, worker."""


@dataclass(frozen=True)
class MatchView:
    """A matched pair, with the fields of its object and of its subscription that a page shows; `subscription_id` with
    its owner.
    """

    object_id: str
    subscription_id: str
    ts: dt.datetime | None
    lon: float
    lat: float
    text: str
    keywords: str
    payload: dict[str, Any]
    region: Region
    worker: int


@dataclass
class RejectView:
    """Rejected rows of one kind and reason: their number, and examples."""

    kind: str
    reason: str
    count: int
    examples: list[dict[str, Any]] = field(default_factory=list)


def sample_points(tables: TableReader) -> np.ndarray:
    """Sample the longitude and latitude of at most POINTS objects: float64[n, 2]."""
    parts = [
        np.column_stack([batch.column("lon").to_numpy(), batch.column("lat").to_numpy()])
        for batch in tables.first_batches(names.OBJECTS, ("lon", "lat"), _FILES)
    ]
    points = np.concatenate(parts) if parts else np.empty((0, 2))
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) > POINTS:
        points = points[np.sort(np.random.default_rng(0).choice(len(points), POINTS, replace=False))]
    return points


def sample_matches(tables: TableReader) -> list[MatchView]:
    """Sample at most PAIRS pairs, ordered by time: few of each subscription, up to half of the oldest ones.

    The pairs come from some files of `matches`. Their objects and subscriptions are read from a few blocks of each log,
    so the time does not depend on the length of the logs.
    """
    pairs = _pairs(tables)
    objects = _by_key(tables, names.OBJECTS, "object_key", {p[0] for p in pairs}, ("ts", "lon", "lat", "text"))
    keys = {p[1] for p in pairs}
    columns = ("op", *ID_COLUMNS, "keywords", *(column.name for column in REQUEST_COLUMNS), "payload")
    subscriptions = _by_key(tables, names.REQUESTS, "request_key", keys, columns)
    matches = [
        _match(object_id, worker, objects[key], subscriptions[subscription])
        for key, subscription, object_id, worker in pairs
        if key in objects and subscription in subscriptions
    ]
    return sorted(matches, key=lambda match: (match.ts or dt.datetime.min.replace(tzinfo=dt.UTC), match.object_id))


def summarize_rejects(tables: TableReader) -> list[RejectView]:
    """Count the rejected rows by kind and reason, the most frequent first, with examples."""
    counts: Counter[tuple[str, str]] = Counter()
    for batch in tables.batches(names.REJECTS, ("kind", "reason")):
        counts.update(zip(batch.column("kind").to_pylist(), batch.column("reason").to_pylist()))
    views = {key: RejectView(str(key[0]), str(key[1]), count) for key, count in counts.most_common()}
    wanted, seen = len(views), 0
    columns = ("kind", "file", "row", "field", "reason", "detail", "raw")
    for batch in tables.batches(names.REJECTS, columns, rows=2_048) if views else ():
        for row in batch.to_pylist():
            view = views.get((row["kind"], row["reason"]))
            if view is not None and len(view.examples) < _EXAMPLES:
                view.examples.append(row)
                wanted -= len(view.examples) == _EXAMPLES
        seen += len(batch)
        if not wanted or seen > _EXAMPLE_ROWS:
            break
    return list(views.values())


def _pairs(tables: TableReader) -> list[Pair]:
    """Choose few pairs of each subscription."""
    rng = np.random.default_rng(0)
    columns = ("object_key", "object_id", "subscription_keys", "worker", "retracted")
    seen: dict[tuple[int, int], Pair] = {}
    for batch in tables.first_batches(names.MATCHES, columns, _FILES):
        kept = batch.filter(pc.invert(batch.column("retracted")))
        chosen = rng.permutation(len(kept))[:_ROWS_OF_FILE]
        for row in kept.take(pa.array(np.sort(chosen))).to_pylist():
            for subscription in sorted(row["subscription_keys"] or ())[:_KEYS_OF_ROW]:
                pair = (row["object_key"], subscription)
                seen[pair] = (*pair, row["object_id"], row["worker"])
    # Retractions have no worker, so they are in data files of their own, and only these are read.
    no_worker = (pc.field("worker") < 0) & pc.field("retracted")
    wanted = no_worker & pc.field("object_key").isin(pa.array(sorted({key for key, _ in seen}), pa.int64()))
    for row in tables.rows(names.MATCHES, ("object_key", "subscription_keys"), wanted) if seen else ():
        for subscription in row["subscription_keys"] or ():
            seen.pop((row["object_key"], subscription), None)
    pairs = [seen[key] for key in sorted(seen)]
    # Half is from the oldest subscriptions and half from any.
    shuffled = list(_of_few_blocks((pairs[i] for i in rng.permutation(len(pairs))), 0))
    first = _few_of_each(sorted(shuffled, key=lambda pair: pair[1]), PAIRS // 2)
    used = set(first)
    rest = _few_of_each(_of_few_blocks((pair for pair in shuffled if pair not in used), 1), PAIRS - len(first))
    return first + rest


def _of_few_blocks(pairs: Iterable[Pair], index: int) -> Iterator[Pair]:
    """Yield the pairs whose key at `index` lies in one of the first _BLOCKS blocks of the log that occur."""
    blocks: set[int] = set()
    for pair in pairs:
        block = int(pair[index]) >> _BLOCK_BITS
        if block in blocks or len(blocks) < _BLOCKS:
            blocks.add(block)
            yield pair


def _few_of_each(pairs: Iterable[Pair], limit: int) -> list[Pair]:
    count: Counter[int] = Counter()
    chosen: list[Pair] = []
    for pair in pairs:
        if len(chosen) == limit:
            break
        if count[pair[1]] < _PAIRS_OF_SUBSCRIPTION:
            count[pair[1]] += 1
            chosen.append(pair)
    return chosen


def _by_key(
    tables: TableReader, name: str, key: str, keys: set[int], columns: tuple[str, ...]
) -> dict[int, dict[str, Any]]:
    if not keys:
        return {}
    among = pc.field(key).isin(pa.array(sorted(keys), pa.int64()))
    inside = (pc.field(key) >= min(keys)) & (pc.field(key) <= max(keys))
    return {row[key]: row for row in tables.rows(name, (key, *columns), inside & among, limit=len(keys))}


def _match(object_id: str, worker: int, thing: dict[str, Any], subscription: dict[str, Any]) -> MatchView:
    try:
        payload = json.loads(subscription["payload"] or "{}")
    except ValueError:
        payload = {}
    return MatchView(
        object_id=object_id,
        subscription_id=show_id(*(subscription[name] or "" for name in ID_COLUMNS)),
        ts=thing["ts"],
        lon=thing["lon"],
        lat=thing["lat"],
        text=(thing["text"] or "")[:_MAX_TEXT],
        keywords=(subscription["keywords"] or "")[:_MAX_TEXT],
        payload=payload if isinstance(payload, dict) else {},
        region=from_columns(subscription),
        worker=worker,
    )
