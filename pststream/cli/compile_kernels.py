"""Compile all kernels ahead of time by running them once: `python -m pststream.cli.compile_kernels`.

`make setup` runs this, so that the first batch does not wait for the compiler.
"""

import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.engine.warm_up import load_kernels
from pststream.input.file_parts import FileRange, count_range
from pststream.input.parse_objects import ObjectOptions, parse_objects
from pststream.input.parse_requests import parse_request_chunk, request_fields
from pststream.input.readers import read_chunks, read_requests
from pststream.kernels.log_rules import find_repeated
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.pipeline.upkeep.maintain import maintain
from pststream.pipeline.upkeep.term_statistics import make_term_statistics
from pststream.planning.balancing.local_adjustment import adjust_locally, select_cells
from pststream.planning.live_terms import make_sample_with_reads
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners.by_subscription import build_area_index, describe_sample, estimate_ranges, place
from pststream.planning.planners.registry import load_placement, make_plan
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.planner_sample import WorkloadSample, count_sample
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import pieces_of
from pststream.queries.text.tokenizer import terms_of
from pststream.search.ask import answer_for_page
from pststream.settings import Settings
from pststream.state.home import Home

_REQUESTS = """\
{"op": "insert", "subscription_id": "a", "keywords": "coffee", "bbox": [0, 0, 1, 1], "created_at": "2026-01-01"}
{"op": "insert", "subscription_id": "b", "keywords": "tea", "circle": {"lon": 0, "lat": 0, "radius_m": 5}, \
"payload": {"note": 1}}
{"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}
{"op": "insert", "subscription_id": "c", "keywords": "tea", "geometry": {"type": "Polygon", "coordinates": [[[0, 0], \
[1, 0], [0, 1], [0, 0]]]}}
"""

_HERE = {"point": {"lon": 18.0, "lat": 59.0}}
_STANDING: list[dict[str, Any]] = [
    {"kind": "knn", "keywords": "coffee OR tea", **_HERE},
    {"kind": "knn", "keywords": "coffee AND w1", "window": "2h", **_HERE},
    {"kind": "knn", "keywords": "*", "window": {"objects": 20}, **_HERE},
    {"kind": "topk", "keywords": "coffee w2 w4", "window": "2h", "alpha": 0.5, **_HERE},
    {"kind": "topk", "keywords": "tea", "window": {"objects": 20}, "alpha": 0.5, **_HERE},
    {"kind": "knn", "keywords": '"coffee w1" NOT tea', **_HERE},
    {"kind": "topk", "keywords": 'coffee "w2 w4" NOT tea', "window": "2h", "alpha": 0.5, **_HERE},
    {"kind": "frequent_terms", "bbox": [17.0, 58.0, 19.0, 60.0], "window": "2h", "step": "1h"},
    {"kind": "frequent_terms", "circle": {"lon": 18.0, "lat": 59.0, "radius_m": 90_000}, "window": "1h", "step": "1h"},
]
_QUESTIONS: list[dict[str, Any]] = [
    {"kind": "range", "bbox": [17.0, 58.0, 19.0, 60.0], "keywords": "coffee AND w1"},
    {"kind": "range", "circle": {"lon": 18.0, "lat": 59.0, "radius_m": 90_000}},
    *({name: value for name, value in row.items() if name != "step"} | {"k": 2} for row in _STANDING),
]


def run_planning_kernels() -> None:
    """Run the kernels of planners, load models and adjustments once, on one object and one subscription."""
    lon, lat = (pa.array([value]).to_numpy() for value in (18.0, 59.0))
    terms, offsets = terms_of(pa.array(["coffee"])).values.to_numpy(), np.array([0, 1], np.int64)
    box = np.array([[17.0, 58.0, 19.0, 60.0]])
    sample = make_sample_with_reads(
        lon=lon, lat=lat, term_offsets=offsets, terms=terms, boxes=box, piece_key=np.zeros(1, np.int64),
        post_offsets=offsets, post_terms=terms,
    )  # fmt: skip
    cost = CostModel(1e-9, 1e-9, 1e-9, 1e-9, 1e-9)
    for planner in names.PLANNERS:
        plan = make_plan(planner, sample, 2, cost)
        if isinstance(plan, SubscriptionPlan):
            _run_placement_kernels(sample, plan)
        compute_worker_loads(sample, plan, cost)
    adjust_locally(sample, make_plan("grid", sample, 2, cost), cost, "gr", sigma=1.0)
    for method in ("gr", "dp"):
        select_cells(method, np.ones(2), np.ones(2, np.int64), 1.0)


def _run_placement_kernels(sample: WorkloadSample, plan: PartitionPlan) -> None:
    """Place the subscriptions of the sample as present ones, and again as new ones."""
    counts, planner = count_sample(sample, plan.grid), load_placement(plan)
    subscriptions, _ = describe_sample(sample, plan)
    placed = place(planner, plan, counts, subscriptions, names.MAX_INT64, np.zeros(plan.units))
    place(planner, plan, counts, subscriptions, -1, placed.loads, [build_area_index(placed.areas)])
    points, k = sample.boxes[:, :2], np.ones(sample.pieces, np.int64)
    estimate_ranges(plan.grid, counts, points, k, sample.post_offsets, sample.post_terms)


def run_batch_kernels() -> None:
    """Run the kernels of routing and matching once, on one object and one subscription."""
    load_kernels()
    pieces_of(Region(((0.0, 0.0, 1.0, 1.0),), "polygon", ((0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0),)))


def run_ingest_kernels() -> None:
    """Run the kernels that read objects and requests once, on short files."""
    objects = {
        "csv": 'object_id,ts,lon,lat,text\n"o",2026-01-01,18.0,59.0,"a ""café"""\n',
        "jsonl": '{"object_id": "o", "ts": "2026-01-01", "lon": 18.0, "lat": 59.0, "text": "a café"}\n',
    }
    with tempfile.TemporaryDirectory() as folder:
        for ending, content in objects.items():
            path = Path(folder) / f"o.{ending}"
            path.write_text(content, "utf-8")
            count_range(FileRange(str(path), ending, 0, len(content)))
            options = ObjectOptions()
            for chunk in read_chunks(str(path), None, options.sources, kept=options.kept):
                parse_objects(chunk, options)
        requests = Path(folder) / "r.jsonl"
        requests.write_text(_REQUESTS, "utf-8")
        for one in read_requests(str(requests), None, request_fields()):
            parse_request_chunk(one, datetime.now(UTC))
    find_repeated(np.zeros(1, np.int64))


def run_answer_kernels() -> None:
    """Run the kernels of subscriptions with memory and of questions, in a small home: four batches and their upkeep."""
    settings = Settings(engine="local", planner="grid", workers=1, max_ahead_seconds=0)
    with tempfile.TemporaryDirectory() as folder:
        home, settings = Home(f"{folder}/home"), replace(settings, cache_dir=f"{folder}/cache")
        home.init(settings.answer_buckets)
        for ordinal in range(4):
            objects = [
                _message(hour, minute) for hour in range(2 * ordinal, 2 * ordinal + 2) for minute in range(0, 60, 2)
            ]
            objects += [_message(2 * ordinal - 1, 1)] if ordinal else []  # a late one
            for kind, rows in (("requests", _standing(ordinal)), ("objects", objects)):
                path = Path(folder) / f"{kind}-{ordinal}.jsonl"
                path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
                ingest(home, settings, kind, [str(path)], ReaderOptions())
            match(home, settings)
            if ordinal == 1:
                make_term_statistics(home, settings)
        maintain(home, settings)
        for question in _QUESTIONS:
            answer_for_page(home, settings, question)


def _message(hour: int, minute: int) -> dict[str, Any]:
    """Return an object; the later it is, the nearer to 18 degrees east."""
    words = f"coffee w{minute} w{minute % 7}" if minute % 3 else "tea coffee"
    ts = f"2026-01-01T{hour:02}:{minute:02}:00Z"
    return {"object_id": ts, "ts": ts, "lon": 18.5 - (60 * hour + minute) / 1000, "lat": 59.0, "text": words}


def _standing(ordinal: int) -> list[dict[str, Any]]:
    """Return insertions of each kind with memory, and from the second batch on a deletion of the batch before."""
    head = {"op": "insert", "created_at": "2026-01-01T00:00:00Z", "k": 2}
    rows = [head | row | {"subscription_id": f"{n}-{ordinal}"} for n, row in enumerate(_STANDING)]
    at = f"2026-01-01T{2 * ordinal:02}:30:00Z"
    deleted = {"op": "delete", "subscription_id": f"{ordinal % len(_STANDING)}-{ordinal - 1}", "at": at}
    return [*rows, deleted] if ordinal else rows


def main() -> int:
    """Compile all kernels in two processes; return the exit code."""
    with ProcessPoolExecutor(2) as processes:
        runs = (run_answer_kernels, run_planning_kernels, run_batch_kernels, run_ingest_kernels)
        for done in [processes.submit(run) for run in runs]:
            done.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
