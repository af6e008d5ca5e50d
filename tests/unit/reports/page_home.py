"""Write a home as a few batches would leave it, without the pipeline."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np

from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.queries.shapes.registry import contains, read_region
from pststream.queries.text.expression import parse_keywords
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from pststream.workloads.demo_files import demo_objects, first_requests
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, match_row, reject

HOSTILE = "<script>alert('text')</script><img src=x onerror=alert(1)> coffee"
HOSTILE_TITLE = "</td><script>alert('title')</script>"
AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
WORKERS = 6
WORDS = ("coffee", "jazz", "train", "free")
REJECTS = [
    *(reject(row, "late", "ts", "2026-02-27T08:00:00Z") for row in range(4)),
    reject(9, "out_of_range", "lat", "91.5"),
    reject(10, "unreadable_time", "ts", HOSTILE),
]
Rows = list[dict[str, Any]]


def write_home(path: Path, objects: int = 400, batches: int = 3, generated: int = 20, workers: int = WORKERS) -> Path:
    """Objects and named subscriptions of the demo, their matches, a plan with a leaf by text, rejects, ledgers."""
    rng, home = np.random.default_rng(5), Home(path)
    home.init()
    things = demo_objects(objects, 5).to_pylist()
    things.append({"object_id": "hostile", "ts": "2026-03-01T11:59:00Z", "lon": -9.14, "lat": 38.72, "text": HOSTILE})
    things = [{**row, "row": n, "ts": dt.datetime.fromisoformat(row["ts"])} for n, row in enumerate(things, 1)]
    odd = {
        "subscription_id": "<b>odd</b>",
        "keywords": "coffee",
        "payload": {"title": HOSTILE_TITLE},
        "bbox": [-180, -90, 180, 90],
    }
    requests = [_request(n, row) for n, row in enumerate([*first_requests(generated, 5), odd], 1)]
    loads = rng.uniform(50, 150, workers).tolist()
    add_plan(home, _plan(things, workers), frequencies=dict.fromkeys(WORDS, 9), worker_loads=loads)
    seen = add_file(home, "objects", things, REJECTS)
    asked = add_file(
        home, "requests", requests, [reject(3, "unreadable_expression", "keywords", "coffee AND (free OR")]
    )
    first = 0
    for batch in range(1, batches + 1):
        last = len(things) * batch // batches
        found = _matches(things[first:last], requests, seen, asked, rng.integers(workers, size=len(things)).tolist())
        add_batch(home, found, objects_to=log_key(seen, last), cpu_seconds=rng.uniform(0.2, 0.25, workers).tolist())
        first = last
    return path


def _request(number: int, row: dict[str, Any]) -> dict[str, Any]:
    payload = json.dumps(row.get("payload"))
    return {**row, "row": number, "op": "insert", "kind": "range", "effective_at": AT, "payload": payload}


def _matches(things: Rows, requests: Rows, seen: int, asked: int, workers: list[int]) -> Rows:
    """Return the rows of objects with a match."""
    queries = [(log_key(asked, r["row"]), read_region(r), parse_keywords(r["keywords"]).required) for r in requests]
    rows = []
    for thing, worker in zip(things, workers):
        words = set(tokenize(thing["text"]))
        found = [
            key
            for key, region, clauses in queries
            if all(map(words.intersection, clauses)) and contains(region, thing["lon"], thing["lat"])
        ]
        row = match_row(log_key(seen, thing["row"]), thing["object_id"], 0, found, ts=thing["ts"], worker=worker)
        rows += [row] if found else []
    return rows


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
