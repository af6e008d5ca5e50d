"""The ledger of batches counts candidates, changes and evaluations by kind; `status` and `metrics` show them."""

import json
from pathlib import Path
from typing import Any

from tests.commands import Home, new_home

POINT = {"point": {"lon": 0.0, "lat": 0.0}, "k": 1, "created_at": "2026-01-01T00:00:00Z"}
REQUESTS = [
    {"subscription_id": "near", "kind": "knn", "keywords": "tea", **POINT},
    {"subscription_id": "best", "kind": "topk", "keywords": "tea", "window": "10h", "alpha": 0.5, **POINT},
    {"subscription_id": "words", "kind": "frequent_terms", "bbox": [-1, -1, 1, 1], "k": 2, "window": "2h", "step": "1h",
     "created_at": POINT["created_at"]},
    {"subscription_id": "box", "keywords": "tea", "bbox": [-1, -1, 1, 1], "created_at": POINT["created_at"]},
]  # fmt: skip


def batch_of(home: Home, folder: Path, *objects: tuple[str, str, float, str]) -> dict[str, Any]:
    """Match objects (id, time of day, longitude, text) as one batch; return its row of `status`."""
    path = folder / f"{objects[0][0]}.jsonl"
    rows = (
        {"object_id": o, "ts": f"2026-01-01T{at}:00Z", "lon": lon, "lat": 0, "text": t} for o, at, lon, t in objects
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    home.ingest("objects", [path])
    home.match()
    status = home.run("status")
    return {name: status["batches"][-1][name] for name in ("candidates", "changes", "evaluations")}


def test_counts_of_each_batch(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=2, planner="grid")
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps({"op": "insert", **row}) + "\n" for row in REQUESTS))
    home.ingest("requests", [path])
    first = batch_of(home, tmp_path, ("a", "08:30", 0.5, "tea"), ("b", "08:40", 0.2, "green tea"))
    assert first == {"candidates": {}, "changes": {"knn": 1, "topk": 1}, "evaluations": {"knn": 1, "topk": 1}}
    # The new object is nearer; it passes the tick of 09:00, whose report has two words.
    second = batch_of(home, tmp_path, ("c", "09:10", 0.1, "tea"))
    assert second["candidates"] == {"knn": 1, "topk": 1} and second["evaluations"] == {"frequent_terms": 1}
    assert second["changes"] == {"frequent_terms": 2, "knn": 2, "topk": 2}
    far = batch_of(home, tmp_path, ("d", "09:20", 0.9, "coffee"))
    assert far == {"candidates": {}, "changes": {}, "evaluations": {}}
    totals = home.run("status")["totals"]
    assert totals["changes"] == {"frequent_terms": 2, "knn": 3, "topk": 3}
    assert totals["evaluations"] == {"frequent_terms": 1, "knn": 1, "topk": 1}
