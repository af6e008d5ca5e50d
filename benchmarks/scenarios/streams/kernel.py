"""Benchmark the matching kernel alone, on one core, in objects/s: arrays in, arrays out, one segment.

The segment is mapped from a file, as workers map it from the cache of their node. Distinct conditions on attributes are
measured in nanoseconds a candidate pair.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.support.measured_homes import frequencies, object_batch
from benchmarks.support.paper_workloads import OBJECTS_ALONE, describe_workload
from benchmarks.support.targets import at_least, at_most
from pststream.base.arrow_columns import ATTRIBUTES
from pststream.base.progress import Progress, Steps
from pststream.matching.matcher import make_probe, match_objects
from pststream.matching.segments import Segment, build_segment
from pststream.pipeline.calibrate.synthetic_homes import clause_lists, index_table
from pststream.plans.pieces import rarest_clause_first
from pststream.queries.conditions import Evaluation, compile_conditions, read_attributes
from pststream.settings import Settings
from pststream.storage.array_cache import map_arrays, write_arrays
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import synthetic_objects, synthetic_subscriptions

OBJECTS = 200_000
RUNS = 5
CASES = {
    "and": (1_000_000, SubscriptionStyle(connective="and", frequent_share=0.5), 1_500_000),
    "cnf": (5_000_000, SubscriptionStyle(connective="both", frequent_share=0.37), 350_000),
}
"""Subscriptions, how they are drawn, and the target in objects/s."""

CONDITIONS, CANDIDATES, NANOSECONDS = 1_000_000, 4_000_000, 50
"""Distinct conditions, candidate pairs, and the target for a pair."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure objects/s of AND subscriptions and of AND/OR ones in CNF; `small` has a tenth of the subscriptions."""
    figures: dict[str, Any] = {}
    targets = {}
    steps = Steps(progress, len(CASES) + 1)
    for name, (count, style, target) in CASES.items():
        count = count if scale == "full" else count // 10
        measured = measure(count, style, seed, steps)
        figures[f"{name}_workload"] = describe_workload(style, OBJECTS_ALONE)
        figures.update({f"{name}_{key}": value for key, value in measured.items()})
        if scale == "full":
            targets[f"{name}_objects_per_second"] = at_least(measured["objects_per_second"], target)
    count = CONDITIONS if scale == "full" else CONDITIONS // 10
    figures["conditions"] = count
    figures["conditions_nanoseconds_per_pair"] = measured_conditions(count, seed)
    steps.end(f"{count:,} conditions: {figures['conditions_nanoseconds_per_pair']} ns a pair")
    if scale == "full":
        targets["conditions_nanoseconds_per_pair"] = at_most(figures["conditions_nanoseconds_per_pair"], NANOSECONDS)
    return {"figures": figures, "floor": {}, "targets": targets}


def measured_conditions(count: int, seed: int) -> float:
    """Return the nanoseconds of a pair of an object with five attributes and one of `count` distinct conditions."""
    draw = np.random.default_rng(seed)
    low, kind, place = draw.integers(0, 10**9, count), draw.integers(0, 40, count), draw.integers(0, 25, count)
    tests = [
        f'{{"kind":"kind {kind}","level":{{"gte":{low}}}}}'
        if low % 2
        else f'{{"level":{{"gte":{low}}},"place":{place}}}'
        for low, kind, place in zip(low.tolist(), kind.tolist(), place.tolist())
    ]
    compiled = compile_conditions(tests)
    objects = 20_000
    drawn = zip(draw.integers(0, 40, objects), draw.integers(0, 10**9, objects), draw.integers(0, 25, objects))
    rows = [
        [
            ("kind", text(f"kind {kind}")),
            ("level", text(level)),
            ("place", text(place)),
            ("name", text(level)),
            ("a", text(1)),
        ]
        for kind, level, place in drawn
    ]
    evaluation = Evaluation(compiled, read_attributes([pa.array(rows, ATTRIBUTES)]))
    row, condition = np.sort(draw.integers(0, objects, CANDIDATES)), draw.integers(0, count, CANDIDATES)
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        evaluation.holds(condition, row)
        times.append(time.process_time() - began)
    return round(float(np.median(times)) / CANDIDATES * 1e9, 1)


def text(value: object) -> dict[str, str]:
    """Return an attribute's value that is a text or looks like a number."""
    return {"type": "text", "value": str(value)}


def measure(count: int, style: SubscriptionStyle, seed: int, steps: Steps) -> dict[str, float]:
    """Measure `count` subscriptions and OBJECTS objects in one segment: the median CPU time of RUNS."""
    objects = synthetic_objects(OBJECTS, seed)
    subscriptions = synthetic_subscriptions(count, seed, objects, style)
    clauses, _, _ = rarest_clause_first(clause_lists(subscriptions), frequencies(objects).frequency)
    began = time.process_time()
    segment = build_segment(index_table(subscriptions, clauses))
    built = time.process_time() - began
    segment = _mapped(segment)
    batch = object_batch(objects)
    times = []
    for _ in range(RUNS + 1):
        began = time.process_time()
        object_batch(objects)
        pairs = match_objects(batch, [make_probe(segment)], 1)
        times.append(time.process_time() - began)
    seconds = float(np.median(times[1:]))
    steps.end(f"{count:,} subscriptions: {OBJECTS / seconds:,.0f} objects/s")
    return {
        "subscriptions": count,
        "postings": len(segment.postings),
        "objects_per_second": round(OBJECTS / seconds),
        "microseconds_per_object": round(seconds / OBJECTS * 1e6, 3),
        "matches_per_object": round(len(pairs.keys) / OBJECTS, 2),
        "candidates_per_object": round(float(pairs.candidates.sum()) / OBJECTS, 2),
        "bytes_per_subscription": round(segment.nbytes / count, 1),
        "build_seconds": round(built, 2),
    }


def _mapped(segment: Segment) -> Segment:
    """Return the segment with its arrays mapped from a file, which is deleted when they are no longer used."""
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        write_arrays(Path(folder) / "segment", segment._asdict())
        return Segment(**map_arrays(Path(folder) / "segment"))
