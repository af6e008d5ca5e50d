"""Benchmark standing `topk` queries: messages/s of Skype's evaluation, by subscriptions, k, window and way to buffer.

The workload is that of Skype, section 8.1 (support/measured_homes.py). The window is full before the first
batch, and 100,000 messages or fewer move it. Term statistics are those of the stored messages. A batch of 10,000
messages runs as `match` runs it, from Delta to Delta, in a warm process on the local engine. Rates of the kernel and
the fold are by CPU time of all threads, as on one core. Buffers are full after the first answers and few run dry while
a tenth of the window moves; how often they do in the long run is measured by `support/answers/buffer_curve.py`.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.answers import answer_batches, buffer_curve
from benchmarks.support.answers.answer_batches import measure_bucket
from benchmarks.support.answers.buffer_policies import EVALUATION_COST, POLICIES, SKYBAND, choose_kept
from benchmarks.support.answers.scored_variants import VARIANTS
from benchmarks.support.file_systems import file_system
from benchmarks.support.measured_homes import STREAMS, MeasuredBatch, StandingHome, draw_topk, middle, step_cpu
from benchmarks.support.measured_worlds import figures_of
from benchmarks.support.memory import MemoryWatch
from benchmarks.support.targets import at_least
from pststream.answers.scored_index import LIST, IndexFolder
from pststream.base.arrays import read_only
from pststream.base.progress import Progress, Steps
from pststream.kernels.questions.scores import sum_squares
from pststream.kernels.scored.find_candidates import MessageArrays, find_candidates, list_probes
from pststream.kernels.scored.index_arrays import IndexArrays
from pststream.pipeline.calibrate.synthetic_homes import QueryWords
from pststream.pipeline.upkeep.term_statistics import make_term_statistics
from pststream.settings import Settings
from pststream.workloads.synthetic_arrays import SyntheticObjects, term_ids

SIZES = {"small": (500, 1_000), "full": (1_000_000, 2_000_000, 5_000_000)}
"""Subscriptions of the growing home; all figures without a size are those of the last."""

WINDOW = {"small": 2_000, "full": 1_000_000}
MESSAGES = {"small": 200, "full": 10_000}
"""Of a batch."""

BATCHES = {"small": 2, "full": 3}
"""Measured batches; two before them are not counted, as the first one builds the index."""

SWEPT = {"small": (200, 500), "full": (10_000, 50_000)}
"""Subscriptions and window of the homes in which k, the window and the words differ."""

SOURCE = {"small": 2_000, "full": 200_000}
"""Messages from which queries are drawn; they are not among those of the home."""

PRUNED = {"small": 100, "full": 2_000}
"""Messages that pass each variant of the index, of one bucket."""

MADE_UP = {"small": answer_batches.TOPK._replace(subscriptions=500, candidates=1_000), "full": answer_batches.TOPK}
"""A bucket of 5,000,000 subscriptions, with made-up scores."""

CURVE = {"small": (5, 400, 1), "full": (200, 10_000, 2)}
"""Subscriptions, window and turnovers of the measured curve of buffers."""

KEPT = (20, 22, 25, 31, 40, 50)
"""Entries at an evaluation, of the curve."""

K, WORDS = 20, QueryWords(5)
TARGETS = {"kernel_and_fold_rate_of_cores": 8_000.0, "rate": 5_000.0}


class Query(NamedTuple):
    """What the sweeps vary: k, words, window of messages, whether it is a window of time, words by Zipf's law."""

    k: int
    words: QueryWords
    window: int
    timed: bool = False
    zipf: bool = False

    def columns(self, source: SyntheticObjects, count: int, seed: int) -> dict[str, Any]:
        """Draw queries; the times of messages are a millisecond apart."""
        length = {"window_us": self.window * 1_000} if self.timed else {"window_objects": self.window}
        return draw_topk(source, count, self.k, length, self.words, seed, self.zipf)


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure growth and prunings in one home, sweeps in smaller ones, and the curve and policies of buffers."""
    sweeps = _sweeps(SWEPT[scale][1])
    steps = Steps(progress, len(SIZES[scale]) + 1 + len(sweeps) + len(KEPT) + len(POLICIES))
    figures: dict[str, Any] = {"window": WINDOW[scale], "k": K, "subscriptions": SIZES[scale][-1]}
    with _folder(tempfile.gettempdir()) as scratch, MemoryWatch() as memory:
        Path(scratch).chmod(0o755)
        _measure_sweep(Path(scratch), Query(K, WORDS, 200), (100, 200), 50, seed, settings)  # compiles kernels
        with _folder(scratch) as folder, _folder(settings.cache_dir or scratch) as derived:
            cache = Path(derived, "cache")
            home = _open_home(Path(folder), WINDOW[scale], seed, settings, progress, cache)
            figures["cache_file_system"] = file_system(cache)
            for size, measured in _measure_growth(home, scale, seed):
                is_last = size == SIZES[scale][-1]
                figures |= measured if is_last else figures_of("", measured, f"at_{size}")
                steps.end(f"{size:,} subscriptions: {measured['rate']} messages/s")
            figures["memory_peak_mb"] = memory.own_peak_mb
            figures |= _measure_prunings(home, PRUNED[scale], seed)
            steps.end(f"prunings: {figures['all_prunings_us']} µs a message")
        for name, query in sweeps.items():
            measured = _measure_sweep(Path(scratch), query, SWEPT[scale], MESSAGES[scale], seed, settings)
            figures |= figures_of(name, measured)
            steps.end(f"{name}: kernel and fold {measured['kernel_and_fold_rate']} messages/s")
        for name, measured in _measure_buffers(Path(scratch), scale):
            figures |= figures_of(name, measured)
            steps.end(f"{name}: {measured['evaluations_per_turnover']} evaluations a turnover")
    figures |= measure_bucket(MADE_UP[scale])
    figures["kernel_and_fold_rate_of_cores"] = figures["kernel_and_fold_rate"] * len(os.sched_getaffinity(0))
    targets = {name: at_least(figures[name], target) for name, target in TARGETS.items()} if scale == "full" else {}
    return {"figures": figures, "floor": {}, "targets": targets}


def _sweeps(window: int) -> dict[str, Query]:
    """Return the sweeps (its figures 15, 16, 18, 19 and 20), smaller than in the paper."""
    return {
        **{f"words_{count}": Query(K, QueryWords(count, least=count), window) for count in (1, 3, 5)},
        **{f"k_{k}": Query(k, WORDS, window) for k in (10, 50)},
        "window_20%": Query(K, WORDS, window // 5),
        "timed": Query(K, WORDS, window, timed=True),
        "zipf": Query(K, QueryWords(5), window, zipf=True),
    }


def _folder(parent: str) -> tempfile.TemporaryDirectory[str]:
    """Return a new folder that is deleted in the end."""
    Path(parent).mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="pststream-bench-", dir=parent)


def _open_home(
    folder: Path, stored: int, seed: int, settings: Settings, progress: Progress, cache: Path | None = None
) -> StandingHome:
    """Return a home with stored messages and their term statistics; cache: as `StandingHome` takes it."""
    home = StandingHome(folder, STREAMS["tweets"], seed, settings, progress, cache)
    home.add_objects(stored)
    make_term_statistics(home.bench.home, home.settings)
    return home


def _measure_growth(home: StandingHome, scale: str, seed: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the figures of each size of the home, to which subscriptions are added."""
    query, source, before = Query(K, WORDS, WINDOW[scale]), home.stream.draw(SOURCE[scale], seed + 77), 0
    for size in SIZES[scale]:
        filled = _fill(home, query, source, size - before)
        measured = _measure_batches(home, BATCHES[scale], MESSAGES[scale])
        stored = {
            f"{name}_bytes_per_subscription": round(count / size, 1) for name, count in home.bytes_by_array().items()
        }
        first = {"first_answers_cpu_seconds_per_million": round(filled.cpu_seconds / (size - before) * 1e6, 1)}
        yield size, measured | stored | first
        before = size


def _fill(home: StandingHome, query: Query, source: SyntheticObjects, count: int) -> MeasuredBatch:
    """Insert subscriptions in one batch, which evaluates them over the stored messages."""
    home.add_large(count, lambda part, seed: query.columns(source, part, seed))
    return home.run_batch()


def _measure_batches(home: StandingHome, count: int, messages: int) -> dict[str, Any]:
    """Return rates and counts of batches of messages: medians."""
    batches = []
    for _ in range(count + 2):
        home.add_objects(messages)
        batches.append(home.run_batch())
    first, batches = batches[0], batches[2:]

    def us(step: str) -> float:
        return middle(batches, lambda batch: step_cpu(step)(batch) * 1e3 / messages, 1)

    return {
        "rate": round(middle(batches, lambda batch: messages / batch.seconds)),
        "rate_by_cpu": round(middle(batches, lambda batch: messages / batch.cpu_seconds)),
        "kernel_and_fold_rate": round(middle(batches, lambda batch: messages / batch.kernel_and_fold)),
        "kernel_us": us("answers_search"),
        "fold_us": us("answers_fold"),
        "advance_us": us("answers_advance"),
        "evaluate_us": us("answers_evaluate"),
        "write_us": us("answers_write"),
        "candidates_per_message": middle(batches, lambda batch: batch.counts["candidates"] / messages, 2),
        "changes_per_message": middle(batches, lambda batch: batch.counts["changes"] / messages, 2),
        "evaluations_per_message": middle(batches, lambda batch: batch.counts["evaluations"] / messages, 4),
        "written_bytes_per_message": middle(batches, lambda batch: batch.written_bytes / messages, 0),
        "index_build_cpu_seconds": round(first.cpu_seconds, 2),
    }


def _measure_sweep(
    scratch: Path, query: Query, sizes: tuple[int, int], messages: int, seed: int, settings: Settings
) -> dict[str, Any]:
    """Return figures of a home of its own."""
    subscriptions, stored = sizes
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        home = _open_home(Path(folder), stored, seed, settings, lambda _: None)
        _fill(home, query, home.stream.draw(subscriptions, seed + 77), subscriptions)
        measured = _measure_batches(home, 2, messages)
    names = ("kernel_and_fold_rate", "kernel_us", "fold_us", "candidates_per_message", "evaluations_per_message")
    return {name: measured[name] for name in names}


def _measure_prunings(home: StandingHome, count: int, seed: int) -> dict[str, float]:
    """Measure the search of a bucket's largest segment with each pruning left out; the pairs must be equal.

    CPU microseconds of a message. The other segments and buckets are searched alike.
    """
    folders = sorted(path.parent for path in Path(home.settings.cache_dir).rglob(LIST))
    opened = IndexFolder(folders[0]).open()
    if opened is None:
        raise ValueError("a bucket has no index")
    segment = opened[0].segments[0]
    messages = _as_messages(home.stream.draw(count, seed + 5), segment)
    figures: dict[str, float] = {"pruned_subscriptions": len(segment.keys)}
    numbers = []
    variants = {"all_prunings": segment} | {f"without_{name}": leave(segment) for name, leave in VARIANTS.items()}
    for name, variant in variants.items():
        probes = list_probes(messages, variant.table, variant.ids, variant.weights)
        find_candidates(variant, messages, probes)
        began = time.process_time()
        *pairs, scored = find_candidates(variant, messages, probes)
        figures[f"{name}_us"] = round((time.process_time() - began) / count * 1e6, 2)
        figures[f"{name}_scored"] = round(scored / count, 1)
        numbers.append(len(pairs[0]))
    if len(set(numbers)) > 1:
        raise ValueError(f"two variants of the index find other pairs: {numbers}")
    return figures


def _as_messages(objects: SyntheticObjects, segment: IndexArrays) -> MessageArrays:
    """Return objects as messages, with the weights of the words that the index has; others weigh as its rarest."""
    terms = term_ids(objects.terms)
    order = np.argsort(segment.ids)
    place = order[np.minimum(np.searchsorted(segment.ids, terms, sorter=order), len(order) - 1)]
    weights = np.where(segment.ids[place] == terms, segment.weights[place], segment.weights[0])
    squares = sum_squares(objects.term_offsets, np.arange(len(terms)), weights)
    points = np.column_stack([objects.lon, objects.lat])
    return MessageArrays(points, squares, objects.term_offsets, read_only(terms))


def _measure_buffers(scratch: Path, scale: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield figures of each number of entries at an evaluation, then of each policy (its figure 14 and table 4)."""
    world = buffer_curve.World(*CURVE[scale])
    keys, k = np.arange(world.subscriptions), np.full(world.subscriptions, K, np.int32)
    kept = {f"kept_{number}": np.full(len(k), number, np.int32) for number in KEPT}
    given = np.full(len(k), K + K // 2 + 1, np.int32)
    whole = np.full(len(k), world.window, np.int32)
    for policy in POLICIES:
        start = whole if policy == SKYBAND else given
        kept[policy] = choose_kept(policy, keys, k, start, EVALUATION_COST)
    for name, numbers in kept.items():
        measured = buffer_curve.run(scratch / "buffers", numbers, world, trims=name == SKYBAND)
        yield (
            name if name.startswith("kept") else f"policy_{name}",
            {
                "evaluations_per_turnover": round(measured.evaluations, 3),
                "entries_per_turnover": round(measured.entries, 1),
                "buffer_size": round(measured.size, 1),
                "fold_us_per_message": round(measured.cpu_seconds / world.messages * 1e6, 2),
            },
        )
