"""Fill a benchmark's home with synthetic objects and requests, written straight into its tables as ingest would."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.benchmarks.support.arrays import clause_lists
from pststream.benchmarks.support.object_sources import CityObjects, ObjectSource
from pststream.domain.arrow_columns import TIME
from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.generator.synthetic_arrays import (
    SyntheticObjects,
    SyntheticSubscriptions,
    synthetic_subscriptions,
    term_ids,
)
from pststream.kinds.range.kind import RANGE
from pststream.ledgers.ledger_rows import log_key
from pststream.ledgers.log_end import Ledger
from pststream.progress import Progress, StepCounter
from pststream.shapes.registry import SIDES
from pststream.state import ledger_tables
from pststream.state.data_files import ROW_GROUP, FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.utc_times import to_micros

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CHUNK = 500_000


def side_lists(boxes: np.ndarray) -> dict[str, pa.Array]:
    """Return the columns of `requests` for regions of one box each: float64[n, 4], west, south, east, north."""
    offsets = pa.array(np.arange(len(boxes) + 1, dtype=np.int32))
    return {side: pa.ListArray.from_arrays(offsets, pa.array(boxes[:, place])) for place, side in enumerate(SIDES)}


class BenchHome:
    """A home whose logs grow by synthetic files; object times rise by a millisecond each.

    Each subscription has a lifetime, drawn from N(mu, (0.2 mu)^2) and counted in insertions, where mu is the number of
    live subscriptions; deletions take those whose lifetime ends first (PS2Stream section VI-A).
    """

    def __init__(self, path: str, seed: int, progress: Progress, objects: ObjectSource | None = None) -> None:
        """Make the home; objects: where they are drawn from, None: around the cities of the USA."""
        self.home = Home(path)
        self.home.init()
        self.seed = seed
        self.progress = progress
        self.clock = START
        self.commits = 0
        self.objects = objects or CityObjects()
        self.source = self.objects.draw(200_000, seed)
        self.live = np.empty(0, np.int64)
        self.live_ends = np.empty(0)
        self.inserted = 0
        self.mean_lifetime = 0

    def add_subscriptions(self, count: int, style: SubscriptionStyle, delete: int = 0, interval: int = 0) -> None:
        """Append files of insertions, then deletions of subscriptions inserted before; `interval`: of Q3's drift."""
        self.mean_lifetime = len(self.live) + count - delete
        done, counter = 0, StepCounter(self.progress, "writing subscriptions", "subscription", count)
        while done < count:
            size = min(CHUNK, count - done)
            last = done + size >= count
            seed = self.seed * 1000 + Ledger(self.home).next_file_seq
            drawn = synthetic_subscriptions(size, seed, self.source, style, interval=interval, regions_seed=self.seed)
            self.add_drawn_subscriptions(drawn, delete if last else 0)
            done += size
            counter.add(size)

    def add_objects(self, count: int) -> tuple[int, int]:
        """Append a file of objects; return its key range (after, to]."""
        seq = Ledger(self.home).next_file_seq
        starts = range(0, count, CHUNK)
        drawn = (self.objects.draw(min(CHUNK, count - at), self.seed * 1000 + seq + at) for at in starts)
        return self.add_drawn_objects(drawn)

    def add_drawn_objects(self, parts: Iterable[SyntheticObjects]) -> tuple[int, int]:
        """Append the parts as one file of objects; return its key range (after, to]."""
        seq, count = Ledger(self.home).next_file_seq, 0
        for drawn in parts:
            self._append(names.OBJECTS, self._object_rows(drawn, seq, count))
            count += len(drawn.lon)
        after = self.clock
        self.clock += dt.timedelta(milliseconds=count)
        self._file("objects", seq, count, after, self.clock)
        return log_key(seq, 0), log_key(seq, count)

    def add_drawn_subscriptions(self, drawn: SyntheticSubscriptions, delete: int = 0) -> None:
        """Append a file of insertions, followed by deletions of the live ones whose lifetime ends first."""
        self.add_insertions(len(drawn.boxes), {"clauses": clause_lists(drawn), **side_lists(drawn.boxes)}, delete)

    def add_insertions(
        self, count: int, columns: Mapping[str, pa.Array], delete: int, since: dt.datetime | None = None
    ) -> None:
        """Append a file of insertions, followed by deletions of the live ones whose lifetime ends first.

        columns  of `requests` that describe the query
        since    start of validity; None: now
        """
        seq = Ledger(self.home).next_file_seq
        numbers = log_key(seq, 0) + np.arange(1, count + 1)
        rows = {
            "request_key": pa.array(numbers),
            "op": pa.repeat("insert", count),
            "kind": pa.repeat(RANGE.name, count),
            "subscription_id": pa.array(numbers).cast(pa.string()),
            "subscription_key": pa.array(numbers),
            "effective_at": pa.repeat(_time(since or self.clock), count),
            "keywords": pa.repeat("", count),
            **columns,
            "ingest_id": pa.array(np.full(count, seq)),
        }
        table = _complete(pa.table(rows), names.REQUESTS)
        gone = self._end_lifetimes(delete)
        self._begin_lifetimes(numbers, seq)
        if len(gone):
            places = log_key(seq, count) + np.arange(1, len(gone) + 1)
            deletions = {
                "request_key": pa.array(places),
                "op": pa.repeat("delete", len(gone)),
                "subscription_id": pa.array(gone).cast(pa.string()),
                "subscription_key": pa.array(gone),
                "effective_at": pa.repeat(_time(self.clock), len(gone)),
                "ingest_id": pa.array(np.full(len(gone), seq)),
            }
            table = pa.concat_tables([table, _complete(pa.table(deletions), names.REQUESTS)])
        self._append(names.REQUESTS, table)
        self._file("requests", seq, count + len(gone), since or self.clock, self.clock)

    def _begin_lifetimes(self, numbers: np.ndarray, seq: int) -> None:
        """Add subscriptions (int64[n], keys) to the live ones, and draw their lifetimes."""
        count = len(numbers)
        mean = max(self.mean_lifetime, count)
        lifetimes = np.random.default_rng([self.seed, 8, seq]).normal(mean, 0.2 * mean, count)
        self.live = np.append(self.live, numbers)
        self.live_ends = np.append(self.live_ends, self.inserted + np.arange(count) + lifetimes)
        self.inserted += count

    def _end_lifetimes(self, count: int) -> np.ndarray:
        """Take the subscriptions whose lifetimes end first out of the live ones; return their keys: int64[count]."""
        order = np.argsort(self.live_ends, kind="stable")
        gone, kept = np.sort(order[:count]), np.sort(order[count:])
        keys = self.live[gone]
        self.live, self.live_ends = self.live[kept], self.live_ends[kept]
        return keys

    def _object_rows(self, drawn: SyntheticObjects, seq: int, offset: int) -> pa.Table:
        count = len(drawn.lon)
        numbers = np.arange(offset + 1, offset + count + 1)
        times = to_micros(self.clock) + numbers * 1000
        terms = pa.ListArray.from_arrays(pa.array(drawn.term_offsets.astype(np.int32)), pa.array(term_ids(drawn.terms)))
        return pa.table(
            {
                "object_key": log_key(seq, 0) + numbers,
                "object_id": pa.array(numbers).cast(pa.string()),
                "ts": pa.array(times).cast(TIME),
                "lon": drawn.lon,
                "lat": drawn.lat,
                "text": pa.repeat("", count),
                "terms": terms,
                "ingest_id": np.full(count, seq),
            }
        )

    def _append(self, name: str, rows: pa.Table) -> None:
        self.commits += 1
        writer = FileWriter(self.home.table(name), TABLES[name].schema)
        for batch in rows.to_batches(ROW_GROUP):
            writer.write(batch)
        written = writer.close()
        commit_files(self.home, name, [written] if written else [], application="bench", transaction=self.commits)

    def _file(self, kind: str, seq: int, rows: int, first: dt.datetime, last: dt.datetime) -> None:
        row: dict[str, Any] = {
            "file_seq": seq, "ingest_id": seq, "kind": kind, "path": f"synthetic-{seq}", "sha256": str(seq), "bytes": 0,
            "options": "{}", "status": "done", "rows": rows, "accepted": rows, "rejected": 0, "watermark": first,
            "min_ts": first, "max_ts": last, "started_at": first,
        }  # fmt: skip
        ledger_tables.append(self.home, names.FILES, [row])


def _time(at: dt.datetime) -> pa.Scalar:
    return pa.scalar(at, TIME)


def _complete(rows: pa.Table, name: str) -> pa.Table:
    """Add the table's other columns as nulls."""
    schema = TABLES[name].schema
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
