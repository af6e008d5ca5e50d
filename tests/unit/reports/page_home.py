"""Write a home as a few batches would leave it, without the pipeline."""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from pststream.base import names
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.plan_rows import plan_row, unit_rows
from pststream.queries.shapes.registry import contains, read_region, to_columns
from pststream.queries.text.expression import parse_keywords
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.state.tables import TABLES
from pststream.workloads.demo_files import demo_objects, first_requests

HOSTILE = "<script>alert('text')</script><img src=x onerror=alert(1)> coffee"
HOSTILE_TITLE = "</td><script>alert('title')</script>"
AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
WORKERS = 6
WORDS = ("coffee", "jazz", "train", "free")


def write_home(path: Path, objects: int = 400, batches: int = 3, generated: int = 20, workers: int = WORKERS) -> Path:
    """Objects and named subscriptions of the demo, their matches, a plan with a leaf by text, rejects, ledgers."""
    rng = np.random.default_rng(5)
    things = demo_objects(objects, 5).to_pylist()
    things.append({"object_id": "hostile", "ts": "2026-03-01T11:59:00Z", "lon": -9.14, "lat": 38.72, "text": HOSTILE})
    requests = first_requests(generated, 5)
    odd = {"op": "insert", "subscription_id": "<b>odd</b>", "keywords": "coffee", "title": HOSTILE_TITLE}
    requests.append({**odd, "bbox": [-180, -90, 180, 90]})
    plan = _plan(things, workers)
    matches = _matches(things, requests, batches, rng, workers)
    _write(path, names.OBJECTS, [_object(i, thing) for i, thing in enumerate(things)])
    _write(path, names.REQUESTS, [_request(i, row) for i, row in enumerate(requests)])
    _write(path, names.MATCHES, matches)
    _write(path, names.REJECTS, _rejects())
    _write_plan(path, plan, rng)
    _write_loads(path, plan, batches, rng)
    _write_ledgers(path, len(things), len(requests), matches, batches, rng)
    return path


def _write(path: Path, name: str, rows: list[dict]) -> None:
    write_deltalake(path / "tables" / name, pa.Table.from_pylist(rows, schema=TABLES[name].schema), mode="append")


def _key(file: int, row: int) -> int:
    return file << names.ROW_BITS | row


def _object(number: int, row: dict) -> dict:
    words = sorted({term_id(word) for word in tokenize(row["text"])})
    ts = dt.datetime.fromisoformat(row["ts"])
    return {**row, "object_key": _key(1, number), "ts": ts, "terms": words, "ingest_id": 1}


def _request(number: int, row: dict) -> dict:
    known = ("op", "subscription_id", "keywords", "bbox", "circle", "geometry", "created_at")
    return {
        "request_key": _key(2, number),
        "kind": "range",
        "op": "insert",
        "subscription_id": row["subscription_id"],
        "subscription_key": _key(2, number),
        "effective_at": AT,
        "keywords": row["keywords"],
        "clauses": [[term_id(word) for word in clause] for clause in parse_keywords(row["keywords"])],
        **to_columns(read_region(row)),
        "payload": json.dumps({k: v for k, v in row.items() if k not in known}),
        "ingest_id": 2,
    }


def _plan(things: list[dict], workers: int) -> PartitionPlan:
    """Halves of halves at medians; the last leaf is shared by text."""
    grid = DispatchGrid(-180.0, -56.0, 180.0, 72.0, 96, 48)
    x = grid.cell_x(np.array([t["lon"] for t in things]))
    y = grid.cell_y(np.array([t["lat"] for t in things]))
    boxes = [(0, grid.columns, 0, grid.rows)]
    while len(boxes) < 2 * workers:
        inside = [(x >= a) & (x < b) & (y >= c) & (y < d) for a, b, c, d in boxes]
        fullest = int(np.argmax([mine.sum() for mine in inside]))
        mine, (a, b, c, d) = inside[fullest], boxes.pop(fullest)
        if b - a >= d - c:
            cut = int(np.clip(np.median(x[mine]), a + 1, b - 1))
            boxes += [(a, cut, c, d), (cut, b, c, d)]
        else:
            cut = int(np.clip(np.median(y[mine]), c + 1, d - 1))
            boxes += [(a, b, c, cut), (a, b, cut, d)]
    cells = np.zeros((grid.rows, grid.columns), dtype=np.int32)
    for leaf, (a, b, c, d) in enumerate(boxes):
        cells[c:d, a:b] = leaf
    last = len(boxes) - 1
    return PartitionPlan(
        planner="kd_tree",
        workers=workers,
        grid=grid,
        cell_leaf=cells.reshape(-1),
        leaf_unit=np.append(np.arange(last), -1).astype(np.int32),
        term_offsets=np.append(np.zeros(last + 1, dtype=np.int64), len(WORDS)),
        terms=np.sort(np.array([term_id(word) for word in WORDS])),
        term_unit=np.array([last, last + 1, last, last + 1], dtype=np.int32),
        spread_offsets=np.append(np.zeros(last + 1, dtype=np.int64), 2),
        spread_unit=np.array([last, last + 1], dtype=np.int32),
        unit_worker=(np.arange(last + 2) % workers).astype(np.int32),
    )


def _write_plan(path: Path, plan: PartitionPlan, rng: np.random.Generator) -> None:
    load = rng.uniform(50, 150, plan.units)
    loads = np.bincount(plan.unit_worker, load, plan.workers)
    figures = {"load_total": loads.sum(), "load_max": loads.max(), "load_min": loads.min()}
    figures |= {"worker_loads": loads.tolist(), "imbalance": loads.max() / loads.min(), "seconds": 0.4}
    _write(path, names.PLANS, [{"plan_version": 1, "index_version": 1, **plan_row(plan), **figures, "created_at": AT}])
    units = unit_rows(plan, plan_version=1, load=load, objects=load * 4, subscriptions=load / 2)
    write_deltalake(path / "tables" / names.PLAN_UNITS, units.select(TABLES[names.PLAN_UNITS].schema.names))
    seen = {"plan_version": 1, "objects": 9, "subscriptions": 3}
    _write(path, names.VOCABULARY, [{**seen, "term_id": term_id(word), "term": word} for word in WORDS])


def _matches(things: list[dict], requests: list[dict], batches: int, rng: np.random.Generator, workers: int) -> list:
    asked = [(read_region(r), parse_keywords(r["keywords"])) for r in requests]
    rows = []
    for number, thing in enumerate(things):
        words = set(tokenize(thing["text"]))
        found = [
            _key(2, i)
            for i, (region, clauses) in enumerate(asked)
            if all(map(words.intersection, clauses)) and contains(region, thing["lon"], thing["lat"])
        ]
        row = {
            "object_key": _key(1, number),
            "object_id": thing["object_id"],
            "ts": dt.datetime.fromisoformat(thing["ts"]),
            "subscription_keys": found,
            "retracted": False,
            "worker": int(rng.integers(workers)),
            "batch_id": 1 + number * batches // len(things),
            "plan_version": 1,
        }
        rows += [row] if found else []
    return rows


def _write_loads(path: Path, plan: PartitionPlan, batches: int, rng: np.random.Generator) -> None:
    rows = []
    for batch in range(1, batches + 1):
        base = {"batch_id": batch, "plan_version": 1}
        for worker in range(plan.workers):
            sums = {"objects": 100 + worker, "candidates": 900, "matches": 30, "cpu_seconds": 0.2 + 0.05 * rng.random()}
            rows.append({**base, "worker": worker, "unit": names.WHOLE_WORKER, "subscriptions": 40 + batch, **sums})
        for unit, worker in enumerate(plan.unit_worker.tolist()):
            sums = {"objects": 50, "candidates": 400, "matches": 9, "cpu_seconds": 0.0}
            rows.append({**base, "worker": worker, "unit": unit, "subscriptions": 0, **sums})
    _write(path, names.UNIT_LOADS, rows)


def _write_ledgers(
    path: Path, objects: int, requests: int, matches: list, batches: int, rng: np.random.Generator
) -> None:
    file = {"sha256": "0", "bytes": 1, "options": "{}", "status": "done", "started_at": AT}
    one = {**file, "file_seq": 1, "ingest_id": 1, "kind": "objects", "path": "a.csv", "max_ts": AT}
    two = {**file, "file_seq": 2, "ingest_id": 2, "kind": "requests", "path": "r.jsonl"}
    _write(
        path,
        names.FILES,
        [
            {**one, "rows": objects + 5, "accepted": objects, "rejected": 5},
            {**two, "rows": requests + 2, "accepted": requests, "rejected": 2},
        ],
    )
    ranges = {"objects_after": 0, "objects_to": 1, "requests_after": 0, "requests_to": 1}
    rows = []
    for batch in range(1, batches + 1):
        read = {"objects_version": 1, "requests_version": 1, "removals": 0}
        begun = {"batch_id": batch, "plan_version": 1, **ranges, **read}
        rows.append({**begun, "status": "started", "started_at": AT})
        seconds = {"session": 3.1 if batch == 1 else 0.01, "index": 0.8, "match": 1 + rng.random(), "loads": 0.1}
        found = sum(len(m["subscription_keys"]) for m in matches if m["batch_id"] == batch)
        counts = {
            "objects": objects // batches,
            "discarded": 3,
            "requests": requests,
            "matches": found,
            "retractions": 0,
        }
        finished = {"seconds_by_step": list(seconds.items()), "finished_at": AT + dt.timedelta(minutes=batch)}
        rows.append({**begun, "status": "done", "started_at": AT, **counts, **finished})
    _write(path, names.BATCHES, rows)


def _rejects() -> list[dict]:
    base = {"kind": "objects", "file": "/data/in/a.csv", "ingest_id": 1}
    why = "the time is older than the watermark less the lateness"
    late = {**base, "field": "ts", "reason": "late", "detail": why, "raw": "2026-02-27T08:00:00Z"}
    expression = {"field": "keywords", "reason": "unreadable_expression", "raw": "coffee AND (free OR"}
    return [
        *({**late, "row": row} for row in range(4)),
        {**base, "row": 9, "field": "lat", "reason": "out_of_range", "detail": "lat is 91.5", "raw": "91.5"},
        {**base, "row": 10, "field": "ts", "reason": "unreadable_time", "detail": "no time", "raw": HOSTILE},
        {**base, **expression, "kind": "requests", "file": "r.jsonl", "row": 3, "detail": "position 19: a word or ("},
    ]
