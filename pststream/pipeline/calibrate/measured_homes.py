"""Fill the homes of benchmarks with synthetic objects and subscriptions, and measure their batches."""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import ATTRIBUTES, BREAKS, TIME, lists
from pststream.base.progress import Progress, StepCounter
from pststream.base.utc_times import to_micros
from pststream.kernels.compile import node_folder
from pststream.pipeline.answers.log_rows import complete_rows
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.rows import CityObjects, ObjectSource, clause_lists
from pststream.queries.kinds.knn import KNN
from pststream.queries.kinds.range import RANGE
from pststream.queries.kinds.topk import TOPK
from pststream.queries.shapes.contract import haversine_m
from pststream.queries.shapes.registry import SIDES
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import ROW_GROUP, FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger, log_key
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.places import USA_BOUNDS
from pststream.workloads.random_texts import PowerLaw
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
            **_requests("insert", log_key(seq, 0), numbers, since or self.clock, seq),
            "kind": pa.repeat(RANGE.name, count),
            "keywords": pa.repeat("", count),
            **columns,
        }
        gone = self._end_lifetimes(delete)
        self._begin_lifetimes(numbers, seq)
        parts = [rows, _requests("delete", log_key(seq, count), gone, self.clock, seq)]
        schema = TABLES[names.REQUESTS].schema
        self._append(names.REQUESTS, pa.Table.from_batches([complete_rows(part, schema) for part in parts]))
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


class Stream(NamedTuple):
    """A stream of objects: mean number of words drawn for an object, and the law of its vocabulary."""

    words: float
    vocabulary: PowerLaw

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw objects of the stream."""
        return synthetic_objects(count, seed, vocabulary=self.vocabulary, terms_per_object=self.words)

    def draw_parts(self, count: int, seed: int) -> Iterator[SyntheticObjects]:
        """Draw objects of the stream, a part at a time."""
        return (self.draw(min(CHUNK, count - at), seed * 1000 + at // CHUNK) for at in range(0, count, CHUNK))


STREAMS = {
    "place": Stream(2.94, PowerLaw(53_931, shift=20.0)),
    "twitter": Stream(5.51, PowerLaw(2_225_654, shift=20.0)),
    "tweets": Stream(9.0, PowerLaw(1_700_000, shift=20.0)),
    "tw14": Stream(10.0, PowerLaw(800_000, shift=20.0)),
}
"""Place and Twitter of DkM-SKS (table 1), TWEETS of Skype (table 3), TW14 of SSTD (section 7).

The vocabularies and the mean numbers of words are those of the papers' data sets, which are not at hand.
"""

SCALE_M = haversine_m(USA_BOUNDS[0], USA_BOUNDS[1], USA_BOUNDS[2], USA_BOUNDS[3])
"""Greatest distance of the streams' space."""


class QueryWords(NamedTuple):
    """The words of queries: so many, and whether an object must have all of them or one (`knn`).

    zipf  draw them by Zipf's law instead of from objects (Skype, figure 19)
    """

    most: int
    least: int = 1
    all_needed: bool = False
    zipf: bool = False


def draw_knn(
    source: SyntheticObjects, count: int, ks: tuple[int, int], words: QueryWords, seed: int
) -> dict[str, pa.Array]:
    """Draw `knn` queries with k evenly from a range (ends included): columns of `requests`."""
    rng = np.random.default_rng([seed, 28])
    columns = _draw_queries(rng, source, count, words)
    k = rng.integers(ks[0], ks[1] + 1, count)
    return {"kind": pa.repeat(KNN.name, count), "k": pa.array(k), **columns}


def draw_topk(
    source: SyntheticObjects, count: int, k: int, window: dict[str, int], words: QueryWords, seed: int
) -> dict[str, pa.Array]:
    """Draw `topk` queries with alpha evenly from 0 to 1: columns of `requests`.

    window: the column `window_objects` or `window_us`, and its value
    """
    rng = np.random.default_rng([seed, 29])
    columns = _draw_queries(rng, source, count, words._replace(all_needed=True))  # a clause for each word
    same: dict[str, Any] = {"k": k, "distance_scale_m": SCALE_M, **window}
    return {
        "kind": pa.repeat(TOPK.name, count),
        "alpha": pa.array(rng.random(count)),
        **{name: pa.repeat(value, count) for name, value in same.items()},
        **columns,
    }


def _draw_queries(
    rng: np.random.Generator, source: SyntheticObjects, count: int, words: QueryWords
) -> dict[str, pa.Array]:
    """Draw queries from objects: the location of each, and its words, all equally likely (DkM-SKS 5.1, Skype 8.1)."""
    rows = rng.integers(0, len(source.lon), count)
    wanted = rng.integers(words.least, words.most + 1, count)
    owner, terms = _zipf_words(rng, source, wanted) if words.zipf else _words_of(rng, source, rows, wanted)
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


def _zipf_words(
    rng: np.random.Generator, source: SyntheticObjects, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return words by Zipf's law, a repeated one once."""
    law = PowerLaw(source.vocabulary.size, shift=0.0)
    owner = np.repeat(np.arange(len(wanted)), wanted)
    pairs = distinct_values(owner * law.size + law.ranks(rng.random(len(owner))))
    return pairs // law.size, pairs % law.size


CACHE_BYTES = 1_000_000_000_000


def with_cache(folder: Path, settings: Settings) -> Settings:
    """Return settings with an empty cache that never evicts; its user finds the compiled kernels of this node."""
    folder.mkdir()
    (node_folder() / "numba").mkdir(parents=True, exist_ok=True)
    (folder / "numba").symlink_to(node_folder() / "numba", target_is_directory=True)
    return replace(settings, cache_dir=str(folder), cache_bytes=CACHE_BYTES, engine="local")


EVERYTHING = 1 << 40
"""More than the objects and the candidates of any batch."""


class MeasuredBatch(NamedTuple):
    """A micro-batch as `match` runs it, in a warm process.

    seconds, cpu_seconds   from its start to its end, and of all threads
    steps                  its seconds by step, and (`…_cpu`) the CPU seconds within them
    workers                CPU milliseconds of each worker's search
    counts                 objects, requests, and of answers: candidates, evaluations, changes
    written_bytes          by which the files of the home have grown
    """

    seconds: float
    cpu_seconds: float
    steps: dict[str, float]
    workers: list[float]
    counts: dict[str, int]
    written_bytes: int

    @property
    def kernel_and_fold(self) -> float:
        """CPU seconds of the search in both indexes, and of the fold."""
        return sum(self.steps.get(step, 0.0) for step in ("match_cpu", "answers_search_cpu", "answers_fold_cpu"))


class StandingHome:
    """A home of standing queries over a stream, with a cache of its own."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        seed: int,
        settings: Settings,
        progress: Progress,
        cache: Path | None = None,
        engine: str = "local",
    ) -> None:
        """Make the home below a folder; cache: the folder to make for its cache, None: beside the home."""
        self.bench = BenchHome(str(folder / "home"), seed, progress)
        with_own_cache = with_cache(cache or folder / "cache", settings)
        self.settings = replace(with_own_cache, max_candidates=EVERYTHING, engine=engine)
        self.stream = stream

    def next_seed(self) -> int:
        """Return a seed for the next file."""
        return self.bench.seed * 1_000_003 + Ledger(self.bench.home).next_file_seq

    def add_objects(self, count: int) -> tuple[int, int]:
        """Append a file of objects of the stream; return its key range (after, to]."""
        return self.bench.add_drawn_objects(self.stream.draw_parts(count, self.next_seed()))

    def add_queries(self, columns: dict[str, pa.Array], delete: int = 0) -> None:
        """Append a file of insertions that live since before the first object, and of deletions of the oldest ones."""
        self.bench.add_insertions(len(columns["kind"]), columns, delete, START)

    def add_large(self, count: int, draw: Callable[[int, int], dict[str, pa.Array]]) -> None:
        """Append files of insertions, each of CHUNK at most; draw: returns so many, by a seed."""
        for at in range(0, count, CHUNK):
            self.add_queries(draw(min(CHUNK, count - at), self.next_seed()))

    def run_batch(self) -> MeasuredBatch:
        """Run one micro-batch over all that is pending."""
        before = _folder_bytes(Path(self.bench.home.path))
        wall, cpu = time.perf_counter(), time.process_time()
        (batch,) = match(self.bench.home, self.settings, max_objects=EVERYTHING, one=True)["batches"]
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        row = read_table(self.bench.home.table(names.BATCHES), None, pds.field("batch_id") == batch["batch_id"])
        (done,) = (one for one in row.to_pylist() if one["status"] == "done")
        counts = {"objects": done["objects"], "requests": done["requests"]}
        for name in ("candidates", "evaluations", "changes"):
            counts[name] = sum(dict(done[name] or ()).values())
        written = _folder_bytes(Path(self.bench.home.path)) - before
        of_workers = (pds.field("batch_id") == batch["batch_id"]) & (pds.field("unit") == names.WHOLE_WORKER)
        loads = read_table(self.bench.home.table(names.UNIT_LOADS), ["cpu_seconds"], of_workers)
        workers = [seconds * 1e3 for seconds in loads.column(0).to_pylist()]
        return MeasuredBatch(wall, cpu, dict(done["seconds_by_step"]), workers, counts, written)

    def bytes_by_array(self) -> dict[str, int]:
        """Return the bytes of the files that the node derives: of buffers and the `topk` index (`answers`), of
        segments of the worker index (`index`), and of requests as arrays (`requests`).
        """
        cache, sizes = Path(self.settings.cache_dir), Counter[str]()
        for path in cache.rglob("*"):
            if path.is_file():
                sizes[_array_of(path.relative_to(cache).parts[0])] += path.stat().st_size
        return {name: sizes[name] for name in ("answers", "index", "requests")}


def _array_of(folder: str) -> str:
    """Return what a folder of the cache contains, by its name."""
    if folder == "answers":
        return folder
    if folder.startswith("segments-queries"):
        return "requests"
    return "index" if folder.removeprefix("segments-")[:1].isdigit() else "objects"


def middle(batches: Sequence[MeasuredBatch], figure: Callable[[MeasuredBatch], float], digits: int = 3) -> float:
    """Return the median of a figure of some batches."""
    return round(median(map(figure, batches)), digits)


def step_cpu(step: str) -> Callable[[MeasuredBatch], float]:
    """Return the figure of a batch that is the CPU milliseconds of a step."""
    return lambda batch: batch.steps.get(f"{step}_cpu", 0.0) * 1e3


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
