"""A new kind with memory is two modules and two lines of registries: answered, listed, exported, explained, checked."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pststream.queries.kinds.registry import KINDS
from tests.command_process import ROOT
from tests.commands import Home, run_here
from tests.conformance.newest_kind import NEWEST
from tests.conformance.other_tables import accept_tables
from tests.worlds import moment, write_rows

REGISTRY_LINES = """
from pststream.queries.kinds.registry import KINDS
from tests.conformance.newest_kind import NEWEST, make_newest_in_pipeline
KINDS[NEWEST.name] = NEWEST
from pststream.pipeline.answers.ranked_kinds import RANKED_KINDS
RANKED_KINDS[NEWEST.name] = make_newest_in_pipeline()
"""
COMMANDS = """
import json
import sys
from tests.commands import run_here
for line in sys.stdin:
    result = run_here(*json.loads(line))
    print(json.dumps([result.code, result.out, result.err]), flush=True)
"""
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "PSTSTREAM_ENGINE": "local",
    "PSTSTREAM_WORKERS": "2",
    "PSTSTREAM_PLANNER": "grid",
}

REQUEST = {"op": "insert", "created_at": moment(0), "keywords": "coffee OR tea", "point": {"lon": 18.0, "lat": 59.0}}
NEWEST_REQUEST = REQUEST | {"kind": "newest", "k": 2, "width": 2}
REQUESTS = [
    NEWEST_REQUEST | {"subscription_id": "newest"},
    NEWEST_REQUEST | {"subscription_id": "window", "k": 3, "window": {"objects": 4}},
    REQUEST | {"subscription_id": "nearest", "kind": "knn", "k": 2},
    NEWEST_REQUEST | {"subscription_id": "bad", "width": 11},
    REQUEST | {"subscription_id": "worse", "kind": "knn", "k": 2, "width": 1},
]
BATCH = 3
OBJECTS = [
    {"object_id": f"o{n}", "ts": moment(step), "lon": lon, "lat": 59.2, "text": text}
    for n, (step, lon, text) in enumerate(
        [
            (1, 18.0, "tea"), (2, 18.5, "coffee"), (3, 25.0, "tea"), (4, 18.1, "milk"), (5, 18.2, "green tea"),
            (2, 18.3, "late coffee"), (5, 18.4, "tea"), (6, 18.9, "coffee"), (7, 18.0, "water"), (8, 30.0, "tea"),
        ]
    )
]  # fmt: skip


def expected(objects: list[dict[str, Any]], k: int, window: int | None) -> list[str]:
    """The k newest of some objects, or of the most recent ones, in the square with one of the words."""
    recent = sorted(enumerate(objects), key=lambda item: (item[1]["ts"], item[0]), reverse=True)[:window]
    inside = [row for _, row in recent if 17 <= row["lon"] <= 19 and {"coffee", "tea"} & set(row["text"].split())]
    return [row["object_id"] for row in inside][:k]


def rows_of(path: Path, subscription_id: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return [row for row in csv.DictReader(file) if row["subscription_id"] == subscription_id]


class OtherPython:
    """A Python whose registries have the new kind from the start, before any schema is derived from them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        script = [sys.executable, "-c", REGISTRY_LINES + COMMANDS]
        pipe, environment = subprocess.PIPE, {**os.environ, **ENVIRONMENT}
        self.process = subprocess.Popen(script, cwd=ROOT, env=environment, text=True, stdin=pipe, stdout=pipe)

    def run(self, *arguments: str | Path) -> Any:
        """Run a command with --json there; return its document."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([*map(str, arguments), "--home", str(self.home), "--json"]) + "\n")
        self.process.stdin.flush()
        code, out, err = json.loads(self.process.stdout.readline())
        assert code == 0, err[-4000:]
        return json.loads(out)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherPython]:
    python = OtherPython(tmp_path / "home")
    with python.process:
        yield python
        python.process.kill()


@pytest.mark.slow
def test_the_pipeline_carries_a_new_kind_with_memory(
    other: OtherPython, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that write run in a Python with the lines of the registries; those that only read run here."""
    monkeypatch.setitem(KINDS, NEWEST.name, NEWEST)
    path, run_apart = other.home, other.run
    run = Home(path).run
    run_apart("init")
    accept_tables(path, monkeypatch)
    ingested = run_apart("ingest", "requests", write_rows(tmp_path / "requests.jsonl", REQUESTS))
    assert ingested["rejects_by_reason"] == {"out_of_range": 1, "field_of_another_kind": 1}
    run_apart("ingest", "objects", write_rows(tmp_path / "objects.jsonl", OBJECTS))

    run_apart("match", "--max-objects", str(BATCH), "--one")
    run_apart("match", "--max-objects", str(BATCH), "--one")
    run_apart("maintain")
    run_apart("match", "--max-objects", str(BATCH))
    assert run_apart("check")["success"]

    run("export", "answers", "--out", tmp_path / "answers.csv")
    run("export", "changes", "--out", tmp_path / "changes.csv")
    for subscription_id, k, window in (("newest", 2, None), ("window", 3, 4)):
        answer, changes = (rows_of(tmp_path / f"{name}.csv", subscription_id) for name in ("answers", "changes"))
        assert [row["object_id"] for row in answer] == expected(OBJECTS, k, window)
        assert {(row["kind"], row["distance_m"], row["score"]) for row in answer} == {("newest", "", "")}
        present: set[str] = set()
        for batch_id in range(1, 5):
            of_batch = [row for row in changes if row["batch_id"] == str(batch_id)]
            present -= {row["object_id"] for row in of_batch if row["change"] == "left"}
            present |= {row["object_id"] for row in of_batch if row["change"] == "entered"}
            assert present == set(expected(OBJECTS[: BATCH * batch_id], k, window)), (subscription_id, batch_id)
    assert [row["object_id"] for row in rows_of(tmp_path / "answers.csv", "nearest")] == ["o0", "o4"]
    assert [row["object_id"] for row in run("answers", "newest")["answers"]] == expected(OBJECTS, 2, None)

    status = run("status")
    assert status["totals"]["changes"]["newest"] > 4 and status["totals"]["candidates"]["newest"] > 0
    answer = expected(OBJECTS, 2, None)
    conditions = {"o3": "keywords", "o2": "square", "o0": "rank"}
    for row in OBJECTS:
        explained = run("explain", row["object_id"], "newest")
        assert explained["problem"] is None
        in_answer = row["object_id"] in answer
        assert explained["state"] == ("in answer" if in_answer else "not in answer")
        assert conditions.get(row["object_id"]) in (None, explained["condition"])
        if in_answer:
            assert explained["pairs"][0]["answer"]["rank"] == answer.index(row["object_id"]) + 1
    assert run("explain", "o0", "newest")["pairs"][0]["answer"]["rank"] == len(expected(OBJECTS, 9, None))
    assert "square of 2 degrees" in run_here("explain", "o7", "newest", "--home", path).out
    run("report", "--out", tmp_path / "report.html")
    assert "square of 2 degrees" in (tmp_path / "report.html").read_text()
