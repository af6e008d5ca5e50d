"""A process that is killed with SIGKILL at any step of `ingest`, `plan` or `match`, and run again, changes nothing.

Homes go through all steps one after the other, a fresh file or batch for each: killed at the step in a process of
its own, run again in this one. In the end all is as in a home that nobody disturbed, and as the twin says.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests import worlds
from tests.commands import KILLED, Home, new_home, run_here
from tests.oracles import twin
from tests.oracles.twin import LogFile
from tests.worlds import WrittenWorld

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2500)]

OBJECT_STEPS = ("started", "parsed", "objects_written", "rejects_written", "done")
REQUEST_STEPS = ("started", "requests_written", "rejects_written", "done")
MATCH_STEPS = ("started", "indexed", "matched", "loads_written", "done")
PLAN_STEPS = ("units_written", "indexed", "done")


def written(folder: Path, seed: int, files: int) -> WrittenWorld:
    """A world with as many files of each kind."""
    folder.mkdir()
    source = worlds.random_world(seed, objects=30 * files, requests=25 * files, files=1)
    things, asked = source.object_files[0], source.request_files[0]
    recut = worlds.World(worlds.cut(things, files), worlds.cut(asked, files), source.lateness_seconds)
    return worlds.write_world(folder, recut, seed)


def home_for(path: Path, world: WrittenWorld) -> Home:
    return new_home(path, planner="kd_tree", workers=3, lateness_seconds=world.lateness_seconds)


def killed_then_run(home: Home, step: str, *arguments: str | Path) -> Any:
    """Kills a command at a step, then runs it to its end."""
    result = home.crash(step, *arguments)
    assert result.code == KILLED, f"{step}: ended with {result.code}\n{result.err[-3000:]}"
    return home.run(*arguments)


def accepted_in_order(home: Home, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table in the order of the log."""
    key = f"{table[:-1]}_key"
    rows = table_of(home, table).to_pyarrow_table(columns=[key, *columns]).to_pylist()
    keys = [row[key] for row in rows]
    assert len(keys) == len(set(keys)), f"a row of {table} was written twice"
    return [tuple(row[c] for c in columns) for row in sorted(rows, key=lambda row: row[key])]


def rejected(home: Home) -> Counter[tuple[Any, ...]]:
    """The rejected rows."""
    columns = ["kind", "file", "row", "field", "reason"]
    rows = table_of(home, "rejects").to_pyarrow_table(columns=columns).to_pylist()
    return Counter(tuple(row[c] for c in columns) for row in rows)


def table_of(home: Home, name: str) -> DeltaTable:
    """A Delta table of a home, wherever it lies in it."""
    (log,) = home.path.glob(f"**/{name}/_delta_log")
    return DeltaTable(log.parent)


def assert_same_tables(home: Home, undisturbed: Home) -> None:
    """What the tables hold, apart from times and the numbers of runs."""
    for table, columns in (
        ("objects", ("object_id", "ts", "lon", "lat", "text", "terms")),
        ("requests", ("op", "subscription_id", "at", "expires_at", "clauses")),
    ):
        assert accepted_in_order(home, table, *columns) == accepted_in_order(undisturbed, table, *columns)
    assert rejected(home) == rejected(undisturbed)
    assert home.exported() == undisturbed.exported()


def assert_as_the_twin(home: Home, log: list[LogFile], lateness_seconds: int) -> None:
    exported = home.exported()
    assert len(exported) == len(set(exported))
    assert set(exported) == twin.outcome_of(log, lateness_seconds).matches


def test_ingest_killed_at_each_step(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 21, len(OBJECT_STEPS))
    home, undisturbed = (home_for(tmp_path / name, world) for name in ("killed", "undisturbed"))
    undisturbed.ingest("requests", world.requests)
    undisturbed.ingest("objects", world.objects)
    undisturbed.match()
    for step, file in zip(REQUEST_STEPS, world.requests):
        killed_then_run(home, f"ingest.{step}", "ingest", "requests", file)
    home.ingest("requests", world.requests[len(REQUEST_STEPS) :])
    for step, file in zip(OBJECT_STEPS, world.objects):
        killed_then_run(home, f"ingest.{step}", "ingest", "objects", file)
    home.match()
    assert_same_tables(home, undisturbed)
    assert_as_the_twin(home, world.log, world.lateness_seconds)


def test_plan_and_match_killed_at_each_step(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 22, len(MATCH_STEPS))
    home, undisturbed = (home_for(tmp_path / name, world) for name in ("killed", "undisturbed"))
    for one in (home, undisturbed):
        one.ingest("requests", world.requests[:1])
        one.ingest("objects", world.objects[:1])
    for n, (step, asked, things) in enumerate(zip(MATCH_STEPS, world.requests, world.objects)):
        for one in (home, undisturbed):
            one.ingest("objects", [things])
            one.ingest("requests", [asked])
        undisturbed.match()
        if n < len(PLAN_STEPS):
            planner = ("grid", "kd_tree")[n % 2]
            killed_then_run(home, f"plan.{PLAN_STEPS[n]}", "plan", "--planner", planner, "--workers", str(2 + n))
        killed_then_run(home, f"match.{step}", "match", "--until-empty")
        assert home.exported() == undisturbed.exported(), f"killed at match.{step}"
    assert_same_tables(home, undisturbed)
    assert_as_the_twin(home, world.log, world.lateness_seconds)


def test_another_command_after_a_killed_ingest(tmp_path: Path) -> None:
    """A file that was half taken in is not matched; taken in anew, it is, once."""
    world = written(tmp_path / "files", 23, 3)
    home = home_for(tmp_path / "home", world)
    home.ingest("requests", world.requests)
    home.ingest("objects", world.objects[:2])
    home.match()
    assert home.crash("ingest.objects_written", "ingest", "objects", world.objects[2]).code == KILLED
    home.match()
    before = [LogFile("requests", p) for p in world.requests] + [LogFile("objects", p) for p in world.objects[:2]]
    assert_as_the_twin(home, before, world.lateness_seconds)
    home.ingest("objects", world.objects[2:])
    home.match()
    assert_as_the_twin(home, world.log, world.lateness_seconds)


def test_other_files_first_after_a_killed_ingest(tmp_path: Path) -> None:
    """The log is the order in which files were taken in, whatever was begun before."""
    world = written(tmp_path / "files", 24, 3)
    home = home_for(tmp_path / "home", world)
    first, second, third = (LogFile("objects", p) for p in world.objects)
    home.ingest("requests", world.requests)
    home.ingest("objects", [first.path])
    assert home.crash("ingest.rejects_written", "ingest", "objects", second.path).code == KILLED
    home.ingest("objects", [third.path])
    home.ingest("objects", [second.path])
    home.match()
    requests = [LogFile("requests", p) for p in world.requests]
    orders = ([first, third, second], [first, second, third])
    wanted = [twin.outcome_of(requests + order, world.lateness_seconds).matches for order in orders]
    assert set(home.exported()) in wanted


def test_upkeep_between_a_killed_match_and_the_next(tmp_path: Path) -> None:
    """`maintain` drops what ended before any object still to come, but not what an unfinished batch needs."""
    home = new_home(tmp_path / "home", planner="grid", workers=2, lateness_seconds=60)
    point = {"lon": 1.0, "lat": 2.0, "text": "tea"}
    early, late = ({"object_id": f"o{n}", "ts": worlds.moment(100 * n), **point} for n in (0, 1))
    insertion = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 10, 10]}
    validity = {"created_at": worlds.moment(-1), "expires_at": worlds.moment(1)}
    objects = worlds.write_rows(tmp_path / "objects.jsonl", [early, late])
    requests = worlds.write_rows(tmp_path / "requests.jsonl", [insertion | validity])
    home.ingest("objects", [objects])
    home.match()
    home.ingest("requests", [requests])
    assert home.crash("match.indexed", "match").code == KILLED
    assert run_here("maintain", "--home", home.path).code in (0, 1, 2)
    home.match()
    assert [(o, s) for o, _, s in home.exported()] == [("o0", "s")]
