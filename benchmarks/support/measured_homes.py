"""Homes of benchmarks: their subscriptions have lifetimes, and their batches are measured."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.errors import InputFileError
from pststream.base.progress import Progress
from pststream.kernels.matching.match_segment import Objects
from pststream.matching.matcher import sort_objects
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.synthetic_homes import (
    CHUNK,
    EVERYTHING,
    START,
    QueryWords,
    SyntheticHome,
    draw_queries,
    with_cache,
)
from pststream.queries.kinds.topk import TOPK
from pststream.queries.shapes.contract import haversine_m
from pststream.queries.text.tokenizer import terms_of
from pststream.settings import Settings
from pststream.state.plans import TermFrequencies
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.object_sample import as_degrees, read_columns
from pststream.workloads.places import USA_BOUNDS, Places
from pststream.workloads.random_texts import PowerLaw
from pststream.workloads.synthetic_arrays import DEFAULT_VOCABULARY, SyntheticObjects, synthetic_objects, term_ids


def frequencies(objects: SyntheticObjects) -> TermFrequencies:
    """Count the objects with each term, ranked as in a plan's vocabulary."""
    return TermFrequencies(*np.unique(term_ids(objects.terms), return_counts=True))


def object_batch(objects: SyntheticObjects) -> Objects:
    """Return all objects as one batch, each probed with all its terms."""
    terms = term_ids(objects.terms)
    count = len(objects.lon)
    return sort_objects(
        objects.lon, objects.lat, np.zeros(count, np.int64), objects.term_offsets, terms, np.zeros(len(terms), np.int32)
    )


class ObjectSource(Protocol):
    """Draws objects."""

    @property
    def description(self) -> str:
        """Return how many words the objects have, and where they are from, for the results page."""

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw `count` objects; the same seed draws the same."""


@dataclass(frozen=True)
class CityObjects:
    """Objects around the cities of the USA, or around `places`."""

    places: Places | None = None
    description: str = f"{DEFAULT_VOCABULARY.size:,} words"

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw `count` objects."""
        return synthetic_objects(count, seed, places=self.places)


@dataclass(frozen=True)
class FileObjects:
    """The objects of a file, drawn evenly with replacement."""

    objects: SyntheticObjects
    description: str

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw `count` rows."""
        chosen = np.random.default_rng([seed, 1]).integers(0, len(self.objects.lon), count)
        begins, ends = self.objects.term_offsets[chosen], self.objects.term_offsets[chosen + 1]
        offsets = np.append(0, np.cumsum(ends - begins))
        positions = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], ends - begins)
        return SyntheticObjects(
            self.objects.lon[chosen],
            self.objects.lat[chosen],
            offsets,
            self.objects.terms[positions],
            self.objects.vocabulary,
        )


def read_objects(path: str) -> FileObjects:
    """Read the columns `lon`, `lat` and `text` of a CSV, JSON Lines or Parquet file.

    Rows without a place in [-180, 180] and [-90, 90] or without a word are left out. Terms are ranks, the most frequent
    first. Raises InputFileError if the file cannot be read or has no such row.
    """
    try:
        table = read_columns(path, ["lon", "lat", "text"])
        lon, lat = as_degrees(table.column("lon")), as_degrees(table.column("lat"))
        terms = terms_of(table.column("text").cast(pa.large_string()).combine_chunks())
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, ValueError, KeyError) as error:
        raise InputFileError(path, f"cannot be read: {error}", "it needs columns lon, lat, text") from None
    valid = (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0) & (pc.list_value_length(terms).to_numpy() > 0)
    kept = terms.filter(pa.array(valid))
    if not len(kept):
        raise InputFileError(path, "has no row with a place and a word", "it needs columns lon, lat, text")
    ids, ranks = np.unique(kept.flatten().to_numpy(), return_inverse=True)
    rank = np.empty(len(ids), np.int32)
    rank[np.argsort(-np.bincount(ranks), kind="stable")] = np.arange(len(ids), dtype=np.int32)
    lengths = pc.list_value_length(kept).to_numpy().astype(np.int64)
    owner, terms_by_rank = np.repeat(np.arange(len(lengths)), lengths), rank[ranks]
    ascending = terms_by_rank[np.lexsort((terms_by_rank, owner))]
    offsets = np.append(0, np.cumsum(lengths))
    objects = SyntheticObjects(lon[valid], lat[valid], offsets, ascending, PowerLaw(len(ids)))
    return FileObjects(objects, f"{len(ids):,} words of {len(kept):,} objects of a file")


class BenchHome(SyntheticHome):
    """A home whose subscriptions have lifetimes.

    Each lifetime is drawn from N(mu, (0.2 mu)^2) and counted in insertions, where mu is the number of live
    subscriptions; deletions take those whose lifetime ends first (PS2Stream section VI-A).
    """

    def __init__(self, path: str, seed: int, progress: Progress, objects: ObjectSource | None = None) -> None:
        """Make the home; objects: where they are drawn from, None: around the cities of the USA."""
        self.objects = objects or CityObjects()
        super().__init__(path, seed, progress, self.objects.draw)
        self.live = np.empty(0, np.int64)
        self.live_ends = np.empty(0)
        self.inserted = 0
        self.mean_lifetime = 0

    def add_subscriptions(self, count: int, style: SubscriptionStyle, delete: int = 0, interval: int = 0) -> None:
        """Append files of insertions, then deletions of subscriptions inserted before; `interval`: of Q3's drift."""
        self.mean_lifetime = len(self.live) + count - delete
        super().add_subscriptions(count, style, delete, interval)

    def replace_live(self, inserted: np.ndarray, delete: int) -> np.ndarray:
        """Add subscriptions (int64[n], keys) to the live ones; return those that end first before: int64[delete]."""
        order = np.argsort(self.live_ends, kind="stable")
        gone, kept = np.sort(order[:delete]), np.sort(order[delete:])
        keys = self.live[gone]
        count, seq = len(inserted), Ledger(self.home).next_file_seq
        mean = max(self.mean_lifetime, count)
        lifetimes = np.random.default_rng([self.seed, 8, seq]).normal(mean, 0.2 * mean, count)
        self.live = np.append(self.live[kept], inserted)
        self.live_ends = np.append(self.live_ends[kept], self.inserted + np.arange(count) + lifetimes)
        self.inserted += count
        return keys


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


def draw_topk(
    source: SyntheticObjects,
    count: int,
    k: int,
    window: dict[str, int],
    words: QueryWords,
    seed: int,
    zipf: bool = False,
) -> dict[str, pa.Array]:
    """Draw `topk` queries with alpha evenly from 0 to 1: columns of `requests`.

    window: the column `window_objects` or `window_us`, and its value
    zipf: draw the words by Zipf's law instead of from objects (Skype, figure 19)
    """
    rng = np.random.default_rng([seed, 29])
    words = words._replace(all_needed=True)  # a clause for each word
    columns = draw_queries(rng, source, count, words, _zipf_words if zipf else None)
    same: dict[str, Any] = {"k": k, "distance_scale_m": SCALE_M, **window}
    return {
        "kind": pa.repeat(TOPK.name, count),
        "alpha": pa.array(rng.random(count)),
        **{name: pa.repeat(value, count) for name, value in same.items()},
        **columns,
    }


def _zipf_words(
    rng: np.random.Generator, source: SyntheticObjects, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return words by Zipf's law, a repeated one once."""
    law = PowerLaw(source.vocabulary.size, shift=0.0)
    owner = np.repeat(np.arange(len(wanted)), wanted)
    pairs = distinct_values(owner * law.size + law.ranks(rng.random(len(owner))))
    return pairs // law.size, pairs % law.size


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
