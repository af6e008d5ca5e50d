"""What the driver does for a batch: commits of a run, files of matches, what travels with tasks."""

import json
from pathlib import Path

import pytest

from benchmarks.scenarios.streams import driver
from pststream.base import names
from pststream.base.progress import no_progress
from pststream.pipeline.batch.worker_parts import TASKS_PER_CORE
from pststream.settings import Settings
from pststream.state.data_files import list_data_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import read_table, table_version
from tests.commands import Home as CommandHome
from tests.commands import new_home

BOX = [17, 58, 19, 60]


def land(folder: Path, number: int, rows: int = 40) -> None:
    """Write a file of each kind; every object has a match, in a place and with a word of its own."""
    day = f"2026-01-0{number}T00:00:00Z"
    requests = [
        {"op": "insert", "subscription_id": f"{number}-{i}", "created_at": day, "keywords": f"w{i}", "bbox": BOX}
        for i in range(rows)
    ]
    objects = [
        {"object_id": f"{number}-{i}", "ts": day, "lon": 17 + 2 * i / rows, "lat": 58 + 2 * i / rows, "text": f"w{i}"}
        for i in range(rows)
    ]
    questions = [{"question_id": "q", "kind": "range", "bbox": BOX, "keywords": "w1"}]
    for kind, records in (("requests", requests), ("objects", objects), ("questions", questions)):
        path = folder / kind / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))


def versions(home: CommandHome) -> dict[str, int]:
    return {name: table_version(Home(home.path).table(name)) for name in TABLES}


def test_commits_of_a_run_with_a_file_of_each_kind(tmp_path: Path) -> None:
    home, landing = new_home(tmp_path / "home", engine="local"), tmp_path / "landing"
    for number in (1, 2):
        before = versions(home)
        land(landing, number)
        home.run("run", landing)
    commits = {name: version - before[name] for name, version in versions(home).items() if version > before[name]}
    twice = {names.BATCHES: 2, names.QUESTION_FILES: 2, names.FILES: 4}
    once = (names.OBJECTS, names.REQUESTS, names.WORKER_INDEX, names.MATCHES, names.UNIT_LOADS)
    assert commits == {**twice, **dict.fromkeys((*once, names.QUESTIONS, names.QUESTION_ANSWERS), 1)}


def test_files_of_matches_are_bounded_by_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    home, landing = new_home(tmp_path / "home", engine="local", planner="grid", workers=400), tmp_path / "landing"
    land(landing, 1, rows=500)
    home.run("run", landing)
    state = Home(home.path)
    workers = read_table(state.table(names.MATCHES), ["worker"]).column(0).unique()
    assert len(workers) > 20 and len(list_data_files(state, names.MATCHES)) <= 2 * TASKS_PER_CORE


def test_the_benchmark_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(driver.SIZES, "small", (40, 400, 8, 4))
    document = driver.run("small", 1, Settings(), no_progress)
    assert document["figures"]["scans"] == 8 and document["figures"]["commits"] == 2
    assert document["targets"]["greatest_task_bytes"]["met"] and document["targets"]["closure_bytes"]["met"]
