"""Benchmark how evenly the planners of DkM-SKS load 20 workers, by the number of subscriptions.

Source: DkM-SKS, section 5: a plan is made after 1,000,000 objects; then each time-stamp has 1,000 objects, which all
workers receive. Table 2 has the load balance on Place, the greatest less the least time of a worker, on average over
time-stamps: 32 ms; table 3 has the time, 471 ms. Departures: 4,000,000 subscriptions at most, for 10,000,000; no
insertions and deletions; the stream is made up (support/measured_homes.py); a time is that of the search in
the index of a worker, one worker after the other, without the update of answers, which the planners do not plan.
"""

import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.support.answers.nearest_circles import draw_pieces, store_objects
from benchmarks.support.measured_homes import STREAMS, object_batch
from benchmarks.support.measured_worlds import figures_of
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.kernels.matching.match_segment import Objects
from pststream.matching.matcher import SegmentProbe, make_probe, match_objects
from pststream.matching.segments import build_segment
from pststream.pipeline.calibrate.synthetic_homes import QueryWords
from pststream.planning.load_model import CostModel
from pststream.planning.planners.registry import make_plan, place_sample
from pststream.plans.planner_sample import WorkloadSample, count_sample
from pststream.queries.shapes.registry import SIDES
from pststream.settings import Settings
from pststream.workloads.synthetic_arrays import SyntheticObjects, term_ids

SIZES = {"small": (1_000, 2_000), "full": (200_000, 1_000_000, 4_000_000)}
"""Subscriptions; each number are the first of the last."""

STORED = {"small": 5_000, "full": 1_000_000}
"""Objects before the plan."""

STAMPS = {"small": 2, "full": 20}
"""Time-stamps, of OBJECTS each."""

ROUNDS = {"small": 2, "full": 20}
"""Times that each worker searches a time-stamp, of which the least counts."""

WORKERS, K, WORDS, OBJECTS = 20, (1, 10), QueryWords(5), 1_000

PLANS = {
    "keyword_oriented": ("keyword_oriented", 0.2),
    "space_oriented": ("space_oriented", 0.2),
    "dkm_sks": ("dkm_sks", 0.2),
    "dkm_sks_of_all": ("dkm_sks", 1.0),
}
"""Planner, and share of the stored objects that are its sample: 200,000, the default of `sample_objects`, and all."""

IMBALANCE = 0.07
"""(Greatest - least) / greatest of DkM-SKS on Place: 32 of 471 ms."""


class Searched(NamedTuple):
    """What workers did in each time-stamp.

    seconds          float64[rounds, stamps, workers]  CPU time
    postings, pairs  int64[stamps, workers]            postings read, and circles found around an object
    """

    seconds: np.ndarray
    postings: np.ndarray
    pairs: np.ndarray


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure each plan at each number of subscriptions."""
    stream, sizes = STREAMS["place"], SIZES[scale]
    steps = Steps(progress, 1 + len(sizes) * len(PLANS))
    stored = stream.draw(STORED[scale], seed)
    pieces = draw_pieces(store_objects(stored), stream.draw(STORED[scale], seed + 77), sizes[-1], K, WORDS, seed)
    stamps = [object_batch(stream.draw(OBJECTS, seed + 100 + ordinal)) for ordinal in range(STAMPS[scale])]
    steps.end(f"{sizes[-1]:,} subscriptions with circles around their nearest objects")
    figures: dict[str, Any] = {"workers": WORKERS, "stored_objects": STORED[scale], "stamp_objects": OBJECTS}
    for size in sizes:
        present = pieces.slice(0, int(np.searchsorted(pieces.column("subscription_key").to_numpy(), size)))
        for name, (planner, share) in PLANS.items():
            placed = _place(planner, _make_sample(stored, share, present), settings)
            measured = describe_search(_search(_build_probes(present, placed), stamps, ROUNDS[scale]))
            figures |= figures_of(f"{name}_at_{size}", measured)
            steps.end(f"{size:,} subscriptions, {name}: imbalance {measured['imbalance_share']}")
    goal = f"dkm_sks_at_{sizes[-1]}_imbalance_share"
    targets = {goal: at_most(figures[goal], IMBALANCE)} if scale == "full" else {}
    return {"figures": figures, "floor": {}, "targets": targets}


def _make_sample(objects: SyntheticObjects, share: float, pieces: pa.Table) -> WorkloadSample:
    """Return a sample of the first objects, so large a share of them, and of all pieces."""
    count = round(share * len(objects.lon))
    terms = term_ids(objects.terms[: objects.term_offsets[count]])
    words = pieces.column("clauses").combine_chunks().flatten()
    offsets = words.offsets.to_numpy().astype(np.int64)
    return WorkloadSample(
        lon=objects.lon[:count],
        lat=objects.lat[:count],
        term_offsets=objects.term_offsets[: count + 1],
        terms=terms,
        boxes=np.column_stack([pieces.column(side).to_numpy() for side in SIDES]),
        piece_key=pieces.column("subscription_key").to_numpy(),
        post_offsets=offsets - offsets[0],
        post_terms=words.flatten().to_numpy(),
        postings=np.zeros(len(terms), np.int32),
        reads=np.zeros(len(terms), np.int32),
        object_scale=1 / share,
    )


def _place(planner: str, sample: WorkloadSample, settings: Settings) -> np.ndarray:
    """Return the worker of each piece: int32[pieces]."""
    plan = make_plan(planner, sample, WORKERS, CostModel.of(settings))
    return place_sample(sample, plan, count_sample(sample, plan.grid)).recorded_units


def _build_probes(pieces: pa.Table, workers: np.ndarray) -> list[SegmentProbe]:
    """Return the index of each worker."""
    own = (pa.array(np.flatnonzero(workers == worker)) for worker in range(WORKERS))
    return [make_probe(build_segment(pieces.take(rows))) for rows in own]


def _search(probes: list[SegmentProbe], stamps: list[Objects], rounds: int) -> Searched:
    """Search all time-stamps in each index, so many times; workers take turns, as the speed of a machine drifts."""
    shape = len(stamps), len(probes)
    seconds = np.empty((rounds, *shape))
    postings, pairs = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for of_round in seconds:
        for worker, probe in enumerate(probes):
            for stamp, batch in enumerate(stamps):
                began = time.thread_time()
                matched = match_objects(batch, [probe], 1)
                of_round[stamp, worker] = time.thread_time() - began
                postings[stamp, worker], pairs[stamp, worker] = matched.candidates.sum(), len(matched.keys)
    return Searched(seconds, postings, pairs)


def describe_search(searched: Searched) -> dict[str, float]:
    """Return figures of a search.

    slowest_ms       CPU time of the slowest worker, imbalance_ms: less that of the fastest; both as averages over
                     time-stamps
    imbalance_share  imbalance_ms over slowest_ms
    noise_share      the same of what two measurements of one worker differ by: of the even and of the odd rounds
    postings_share, pairs_share   as imbalance_share, of the counted work
    lasting_...      the same shares of the sums over all time-stamps
    """
    least = searched.seconds.min(axis=0)
    halves = searched.seconds[::2].min(axis=0), searched.seconds[1::2].min(axis=0)
    figures = {
        "slowest_ms": round(float(least.max(axis=1).mean()) * 1e3, 4),
        "imbalance_ms": round(float(np.ptp(least, axis=1).mean()) * 1e3, 4),
        "noise_share": round(float(np.abs(halves[0] - halves[1]).max(axis=1).mean() / least.max(axis=1).mean()), 4),
        "pairs_per_object": round(float(searched.pairs.sum()) / len(least) / OBJECTS, 2),
    }
    for name, work in (("imbalance", least), ("postings", searched.postings), ("pairs", searched.pairs)):
        figures[f"{name}_share"] = share_of(work)
        figures[f"lasting_{name}_share"] = share_of(work.sum(axis=0, keepdims=True))
    return figures


def share_of(work: np.ndarray) -> float:
    """Return (greatest - least) / greatest of work[stamps, workers], both as averages over time-stamps."""
    return round(float(np.ptp(work, axis=1).mean() / max(float(work.max(axis=1).mean()), 1e-12)), 4)
