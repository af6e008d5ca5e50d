"""Fill homes with synthetic objects and subscriptions, for measurements."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import ATTRIBUTES, BREAKS, TIME, lists
from pststream.base.progress import Progress, StepCounter
from pststream.base.utc_times import to_micros
from pststream.kernels.compile import node_folder
from pststream.matching.segments import NO_VERIFIED
from pststream.pipeline.answers.log_rows import complete_rows
from pststream.queries.kinds.knn import KNN
from pststream.queries.kinds.range import RANGE
from pststream.queries.shapes.registry import PIECE_COLUMNS, SIDES
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import ROW_GROUP, FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.ledgers import Ledger, log_key
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import (
    SyntheticObjects,
    SyntheticSubscriptions,
    synthetic_objects,
    synthetic_subscriptions,
    term_ids,
)

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CHUNK = 500_000


def side_lists(boxes: np.ndarray) -> dict[str, pa.Array]:
    """Return the columns of `requests` for regions of one box each: float64[n, 4], west, south, east, north."""
    return {side: lists(np.arange(len(boxes) + 1), boxes[:, index]) for index, side in enumerate(SIDES)}


def clause_lists(subscriptions: SyntheticSubscriptions) -> pa.ListArray:
    """Return the clauses of each subscription: list<list<int64>>."""
    return lists(subscriptions.clause_offsets, lists(subscriptions.term_offsets, term_ids(subscriptions.terms)))


def index_table(subscriptions: SyntheticSubscriptions, clauses: pa.ListArray) -> pa.Table:
    """Return the rows of `worker_index` of one worker for subscriptions that are always valid."""
    count = len(subscriptions.boxes)
    sides = {side: subscriptions.boxes[:, index] for index, side in enumerate(SIDES)}
    return pa.table(
        {
            "subscription_key": np.arange(count),
            **{column.name: pa.nulls(count, column.type) for column in PIECE_COLUMNS},
            **{column.name: pa.nulls(count, column.type) for column in NO_VERIFIED},
            **sides,
            "clauses": clauses,
            "created_at": np.full(count, names.NO_TIME),
            "end_at": np.full(count, names.NEVER_US),
            "kind": pa.nulls(count, pa.string()),
            "unit": pa.nulls(count, pa.int64()),
        }
    )


Draw = Callable[[int, int], SyntheticObjects]
"""Draws so many objects by a seed."""


class SyntheticHome:
    """A home whose logs grow by synthetic files; object times rise by a millisecond each."""

    def __init__(self, path: str, seed: int, progress: Progress, draw: Draw = synthetic_objects) -> None:
        """Make the home; draw: draws its objects, by default around the cities of the USA."""
        self.home = Home(path)
        self.home.init()
        self.seed = seed
        self.progress = progress
        self.clock = START
        self.commits = 0
        self.draw = draw
        self.source = draw(200_000, seed)

    def add_subscriptions(self, count: int, style: SubscriptionStyle, delete: int = 0, interval: int = 0) -> None:
        """Append files of insertions, of which the last also has deletions; `interval`: of Q3's drift."""
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
        drawn = (self.draw(min(CHUNK, count - at), self.seed * 1000 + seq + at) for at in starts)
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
        """Append a file of insertions, followed by deletions."""
        self.add_insertions(len(drawn.boxes), {"clauses": clause_lists(drawn), **side_lists(drawn.boxes)}, delete)

    def add_insertions(
        self, count: int, columns: Mapping[str, pa.Array], delete: int, since: dt.datetime | None = None
    ) -> None:
        """Append a file of insertions, followed by deletions of `delete` subscriptions that `replace_live` returns.

        columns  of `requests` that describe the query
        since    start of validity; None: now
        """
        seq = Ledger(self.home).next_file_seq
        numbers = log_key(seq, 0) + np.arange(1, count + 1)
        rows = {
            **_requests("insert", log_key(seq, 0), numbers, since or self.clock, seq),
            "kind": pa.repeat(RANGE.name, count),
            "keywords": pa.repeat("", count),
            **columns,
        }
        gone = self.replace_live(numbers, delete)
        parts = [rows, _requests("delete", log_key(seq, count), gone, self.clock, seq)]
        schema = TABLES[names.REQUESTS].schema
        self._append(names.REQUESTS, pa.Table.from_batches([complete_rows(part, schema) for part in parts]))
        self._file("requests", seq, count + len(gone), since or self.clock, self.clock)

    def replace_live(self, inserted: np.ndarray, delete: int) -> np.ndarray:
        """Note the keys of insertions (int64[n]); return those that the file deletes: int64[delete].

        A home that deletes subscriptions has a method of its own; this one deletes none.
        """
        assert delete == 0
        return np.empty(0, np.int64)

    def _object_rows(self, drawn: SyntheticObjects, seq: int, offset: int) -> pa.Table:
        count = len(drawn.lon)
        numbers = np.arange(offset + 1, offset + count + 1)
        times = to_micros(self.clock) + numbers * 1000
        return pa.table(
            {
                "object_key": log_key(seq, 0) + numbers,
                "object_id": pa.array(numbers).cast(pa.string()),
                "ts": pa.array(times).cast(TIME),
                "lon": drawn.lon,
                "lat": drawn.lat,
                "text": pa.repeat("", count),
                "text_breaks": pa.nulls(count, BREAKS),
                "terms": lists(drawn.term_offsets, term_ids(drawn.terms)),
                "attributes": pa.nulls(count, ATTRIBUTES),
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


def _requests(op: str, after_key: int, keys: np.ndarray, at: dt.datetime, seq: int) -> dict[str, pa.Array | np.ndarray]:
    """Return the columns that insertions and deletions of subscriptions (int64[n], keys) have."""
    return {
        "request_key": after_key + np.arange(1, len(keys) + 1),
        "op": pa.repeat(op, len(keys)),
        "owner": pa.repeat("", len(keys)),
        "subscription_id": pa.array(keys).cast(pa.string()),
        "subscription_key": keys,
        "effective_at": pa.repeat(pa.scalar(at, TIME), len(keys)),
        "ingest_id": np.full(len(keys), seq),
    }


class QueryWords(NamedTuple):
    """The words of queries: so many, and whether an object must have all of them or one (`knn`)."""

    most: int
    least: int = 1
    all_needed: bool = False


def draw_knn(
    source: SyntheticObjects, count: int, ks: tuple[int, int], words: QueryWords, seed: int
) -> dict[str, pa.Array]:
    """Draw `knn` queries with k evenly from a range (ends included): columns of `requests`."""
    rng = np.random.default_rng([seed, 28])
    columns = draw_queries(rng, source, count, words)
    k = rng.integers(ks[0], ks[1] + 1, count)
    return {"kind": pa.repeat(KNN.name, count), "k": pa.array(k), **columns}


def draw_queries(
    rng: np.random.Generator,
    source: SyntheticObjects,
    count: int,
    words: QueryWords,
    draw_words: Callable[..., tuple[np.ndarray, np.ndarray]] | None = None,
) -> dict[str, pa.Array]:
    """Draw queries from objects: the location of each, and its words, all equally likely (DkM-SKS 5.1, Skype 8.1).

    draw_words: takes `rng`, `source`, and int64[count], how many words each query wants; returns the query of each
    word, ascending, and the words
    """
    rows = rng.integers(0, len(source.lon), count)
    wanted = rng.integers(words.least, words.most + 1, count)
    owner, terms = draw_words(rng, source, wanted) if draw_words else _words_of(rng, source, rows, wanted)
    offsets = np.searchsorted(owner, np.arange(count + 1))
    items = term_ids(terms)
    if words.all_needed:
        clauses = lists(offsets, lists(np.arange(len(items) + 1), items))
    else:
        clauses = lists(np.arange(count + 1), lists(offsets, items))
    return {"lon": pa.array(source.lon[rows]), "lat": pa.array(source.lat[rows]), "clauses": clauses}


def _words_of(
    rng: np.random.Generator, source: SyntheticObjects, rows: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return so many of the words of each object, fewer if it has fewer: the query of each word, ascending; words."""
    lengths = source.term_offsets[rows + 1] - source.term_offsets[rows]
    owner = np.repeat(np.arange(len(rows)), lengths)
    starts = np.cumsum(lengths) - lengths
    position = np.arange(len(owner)) - starts[owner]
    order = np.argsort(owner + rng.random(len(owner)))
    chosen = position < wanted[owner]  # the order keeps the owners where they are
    terms = source.terms[(source.term_offsets[rows] - starts)[owner] + np.arange(len(owner))]
    return owner[chosen], terms[order[chosen]]


CACHE_BYTES = 1_000_000_000_000


def with_cache(folder: Path, settings: Settings) -> Settings:
    """Return settings with an empty cache that never evicts; its user finds the compiled kernels of this node."""
    folder.mkdir()
    (node_folder() / "numba").mkdir(parents=True, exist_ok=True)
    (folder / "numba").symlink_to(node_folder() / "numba", target_is_directory=True)
    return replace(settings, cache_dir=str(folder), cache_bytes=CACHE_BYTES, engine="local")


EVERYTHING = 1 << 40
"""More than the objects and the candidates of any batch."""
