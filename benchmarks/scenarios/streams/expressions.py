"""Benchmark subscriptions with phrases and exclusions, and texts without blanks, each beside a plain twin.

`phrases`: 20% of the subscriptions have a phrase, 10% exclude a word; the twin has the same words side by side and
excludes nothing. `han`: texts of 140 Han characters, and keywords of two to four, which are phrases; the twin has
each of these words in letters, with blanks between. Both homes of a pair are measured in turn.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.support.targets import at_most
from pststream.base.arrays import offsets_of
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.synthetic_homes import with_cache
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.workloads.draw_subscriptions import square_boxes
from pststream.workloads.generate_files import iso_times, join_words, numbered
from pststream.workloads.places import city_places, scatter
from pststream.workloads.random_texts import PowerLaw, made_up_word, make_vocabulary

SIZES = {"small": (20_000, 10_000), "full": (1_000_000, 200_000)}
"""Subscriptions and objects of a batch."""

RUNS = {"small": 2, "full": 3}
BOX_KM = (10.0, 100.0)
WORDS, HAN_WORDS, HAN_CHARACTERS, HAN_TEXT = 12, 50_000, 3_000, 140
PHRASES, EXCLUSIONS = 0.2, 0.1
MOST_OVER_TWIN = {"phrases": 1.3, "han": 2.0}
START = 1_767_225_600_000


class Texts(NamedTuple):
    """Texts of objects: text i has the words `words[starts[i]:starts[i + 1]]` (int32[]), ranks of the vocabulary."""

    starts: np.ndarray
    words: np.ndarray


class Side(NamedTuple):
    """One home of a pair: how its texts and its subscriptions are written."""

    vocabulary: pa.Array
    separator: str
    keywords: Callable[["Drawn"], pa.Array]


class Drawn(NamedTuple):
    """What both homes of a pair have: places of objects, their texts; by subscription, its object, the words that it
    asks for and one that it may exclude (ranks, int32[n] each), and a number in [0, 1) that decides its form.
    """

    lon: np.ndarray
    lat: np.ndarray
    texts: Texts
    owner: np.ndarray
    first: np.ndarray
    second: np.ndarray
    excluded: np.ndarray
    form: np.ndarray


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure batches of both workloads and of their twins: CPU seconds and bytes of the index and the segments."""
    figures: dict[str, Any] = {}
    floor: dict[str, float] = {}
    targets: dict[str, Any] = {}
    steps = Steps(progress, 2 * len(MOST_OVER_TWIN))
    for name, (draw_texts, sides) in _workloads().items():
        with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
            drawn = _draw(np.random.default_rng([seed, 31]), *SIZES[scale], draw_texts)
            measured, twin = _measure(Path(folder), drawn, sides, RUNS[scale], settings, steps, name)
        over = measured["batch_cpu_seconds"] / twin["batch_cpu_seconds"]
        figures |= {f"{name}_{figure}": value for figure, value in measured.items()}
        figures[f"{name}_over_twin"] = round(over, 3)
        with_ingest = [one["ingest_objects_cpu_seconds"] + one["batch_cpu_seconds"] for one in (measured, twin)]
        figures[f"{name}_with_ingest_over_twin"] = round(with_ingest[0] / with_ingest[1], 3)
        floor |= {f"{name}_{figure}": value for figure, value in twin.items()}
        targets[f"{name}_over_twin"] = at_most(round(over, 3), MOST_OVER_TWIN[name])
    return {"figures": figures, "floor": floor, "targets": targets}


def _workloads() -> dict[str, tuple[Callable[[np.random.Generator, int], Texts], tuple[Side, Side]]]:
    """Return how the texts of each workload are drawn, and its two sides."""
    words = make_vocabulary().words
    rng = np.random.default_rng(31)
    lengths = rng.integers(2, 5, HAN_WORDS)
    characters = pa.array([chr(0x4E00 + number) for number in range(HAN_CHARACTERS)])
    ranks = PowerLaw(HAN_CHARACTERS).ranks(rng.random(int(lengths.sum())))
    han = join_words(characters, ranks, lengths, "")
    letters = pa.array([made_up_word(number) for number in range(HAN_WORDS)])

    def han_texts(rng: np.random.Generator, count: int) -> Texts:
        drawn = PowerLaw(HAN_WORDS).ranks(rng.random((count, HAN_TEXT // 2)))
        fits = np.cumsum(lengths[drawn], axis=1) <= HAN_TEXT
        return Texts(offsets_of(fits.sum(axis=1)), drawn[fits])

    def plain_texts(rng: np.random.Generator, count: int) -> Texts:
        drawn = PowerLaw(len(words)).ranks(rng.random(count * WORDS))
        return Texts(np.arange(count + 1) * WORDS, drawn)

    return {
        "phrases": (plain_texts, (Side(words, " ", _expressions), Side(words, " ", _side_by_side(words)))),
        "han": (han_texts, (Side(han, "", _side_by_side(han)), Side(letters, " ", _side_by_side(letters)))),
    }


def _side_by_side(words: pa.Array) -> Callable[[Drawn], pa.Array]:
    """Return expressions of two words."""
    return lambda drawn: pc.binary_join_element_wise(words.take(drawn.first), words.take(drawn.second), " ")


def _expressions(drawn: Drawn) -> pa.Array:
    """Return expressions of two words: some are a phrase, some exclude another word."""
    words = make_vocabulary().words
    plain = _side_by_side(words)(drawn)
    phrase = pc.binary_join_element_wise('"', plain, '"', "")
    excluding = pc.binary_join_element_wise(plain, words.take(drawn.excluded), " NOT ")
    is_phrase, excludes = drawn.form < PHRASES, drawn.form >= 1 - EXCLUSIONS
    return pc.if_else(pa.array(is_phrase), phrase, pc.if_else(pa.array(excludes), excluding, plain))


def _draw(
    rng: np.random.Generator,
    subscriptions: int,
    objects: int,
    draw_texts: Callable[[np.random.Generator, int], Texts],
) -> Drawn:
    """Draw objects around cities; each subscription has two adjacent words of an object and a box around it."""
    lon, lat = scatter(rng, city_places(), objects)
    texts = draw_texts(rng, objects)
    owner = rng.integers(0, objects, subscriptions)
    length = texts.starts[owner + 1] - texts.starts[owner]
    first = texts.starts[owner] + (rng.random(subscriptions) * (length - 1)).astype(np.int64)
    excluded = texts.words[rng.integers(0, len(texts.words), subscriptions)]
    excluded = np.where(excluded == texts.words[first], excluded + 1, excluded)
    excluded = np.where(excluded == texts.words[first + 1], excluded + 2, excluded)
    form = rng.random(subscriptions)
    return Drawn(lon, lat, texts, owner, texts.words[first], texts.words[first + 1], excluded, form)


def _measure(
    folder: Path, drawn: Drawn, sides: tuple[Side, Side], runs: int, settings: Settings, steps: Steps, name: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Measure both sides of a pair, in turn."""
    homes = [_prepare(folder / str(place), drawn, side, settings) for place, side in enumerate(sides)]
    seconds: list[list[tuple[float, float, int]]] = [[], []]
    for ordinal in range(1, runs + 1):
        for place, (home, own, side, _) in enumerate(homes):
            read = _ingest(home, own, "objects", folder / f"{place}-{ordinal}", _object_rows(drawn, side, ordinal))
            began = time.process_time()
            batch = match(home, own)
            seconds[place].append((read, time.process_time() - began, int(batch["matches"])))
    measured = []
    for place, (home, own, _, figures) in enumerate(homes):
        read, batch, matches = (statistics.median(column) for column in zip(*seconds[place]))
        segments = [path for path in Path(own.cache_dir).rglob("*") if path.is_file()]
        objects = len(drawn.lon)
        figures |= {
            "ingest_objects_cpu_seconds": round(read, 2),
            "batch_cpu_seconds": round(batch, 3),
            "matches_per_object": round(matches / objects, 2),
            "index_bytes": sum(file.bytes for file in index_files(home, current_version(home))),
            "segment_bytes": sum(path.stat().st_size for path in segments),
        }
        measured.append(figures)
        steps.end(f"{name}, {('measured', 'twin')[place]}: {batch:.2f} CPU s a batch, {matches / objects:.1f} matches")
    return measured[0], measured[1]


def _prepare(folder: Path, drawn: Drawn, side: Side, settings: Settings) -> tuple[Home, Settings, Side, dict[str, Any]]:
    """Make a home with the subscriptions of a side and a first batch, whose search builds the segments."""
    folder.mkdir()
    home, own = Home(str(folder / "home")), replace(with_cache(folder / "cache", settings), engine="local")
    home.init()
    requests = _ingest(home, own, "requests", folder / "requests", _request_rows(drawn, side))
    _ingest(home, own, "objects", folder / "objects", _object_rows(drawn, side, 0).slice(0, 1000))
    match(home, own)
    return home, own, side, {"ingest_requests_cpu_seconds": round(requests, 2)}


def _ingest(home: Home, settings: Settings, kind: str, path: Path, rows: pa.Table) -> float:
    """Ingest rows as a Parquet file; return the CPU seconds."""
    file = path.with_suffix(".parquet")
    pq.write_table(rows, file)
    began = time.process_time()
    ingest(home, settings, kind, [str(file)], ReaderOptions())
    return time.process_time() - began


def _object_rows(drawn: Drawn, side: Side, ordinal: int) -> pa.Table:
    """Return the objects with ids and times of a batch of their own."""
    count = len(drawn.lon)
    return pa.table(
        {
            "object_id": numbered(f"o{ordinal}-", np.arange(count)),
            "ts": iso_times(START + ordinal * count + np.arange(count)),
            "lon": drawn.lon,
            "lat": drawn.lat,
            "text": join_words(side.vocabulary, drawn.texts.words, np.diff(drawn.texts.starts), side.separator),
        }
    )


def _request_rows(drawn: Drawn, side: Side) -> pa.Table:
    """Return the insertions."""
    count = len(drawn.owner)
    rng = np.random.default_rng(37)
    boxes = square_boxes(drawn.lon[drawn.owner], drawn.lat[drawn.owner], rng.uniform(*BOX_KM, count))
    return pa.table(
        {
            "op": pa.array(["insert"] * count),
            "subscription_id": numbered("s", np.arange(count)),
            "keywords": side.keywords(drawn),
            "bbox": pa.FixedSizeListArray.from_arrays(boxes.ravel(), 4).cast(pa.list_(pa.float64())),
            "created_at": iso_times(np.full(count, START - 1)),
        }
    )
