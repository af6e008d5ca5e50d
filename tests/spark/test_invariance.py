"""The set of matches is a pure function of the two logs: whatever the cut, plan, workers, order and engine.

Every run is judged by the twin. Worlds are random; late objects, late subscriptions, deletions in between, insertions
again and bad rows are in all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from pststream.base import names
from pststream.pipeline.batch import route_task, worker_parts
from pststream.search import object_cache, wanted_rows
from pststream.search.wanted_rows import find_wanted_rows
from tests import worlds
from tests.commands import Home, ingest_world, new_home
from tests.fuzz.cases import examples
from tests.kill_and_rerun import assert_same_tables
from tests.oracles import twin
from tests.worlds import WrittenWorld

pytestmark = pytest.mark.spark

FEW = examples(
    10,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@dataclass(frozen=True)
class Schedule:
    """How one run treats a world; `replans`: planner and workers of a new plan, by the step before which it is made."""

    planner: str = "grid"
    workers: int = 5
    objects_first: bool = True
    cuts: int = 1
    replans: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    engine: str = "auto"
    divided: bool = False  # whether the objects of a worker are matched by several tasks


SCHEDULES = st.builds(
    Schedule,
    planner=st.sampled_from(tuple(names.PLANNERS)),
    workers=st.sampled_from((1, 5, 16)),
    objects_first=st.booleans(),
    cuts=st.sampled_from((1, 2, 3)),
    engine=st.sampled_from(("local", "spark")),
    divided=st.booleans(),
)


def written(folder: Path, seed: int, **sizes: int) -> WrittenWorld:
    """A random world as files."""
    folder.mkdir()
    return worlds.write_world(folder, worlds.random_world(seed, **sizes), seed)


def home_for(folder: Path, world: WrittenWorld, schedule: Schedule) -> Home:
    """An empty home with the settings of a schedule."""
    return new_home(
        folder / "home",
        planner=schedule.planner,
        workers=schedule.workers,
        lateness_seconds=world.lateness_seconds,
        engine=schedule.engine,
    )


def run_cut_by_objects(home: Home, world: WrittenWorld, schedule: Schedule) -> None:
    """Ingests all, plans, and matches in `cuts` micro-batches."""
    objects, _ = ingest_world(home, world, schedule.objects_first)
    home.run("plan")
    per_batch = max(1, objects["rows"] // schedule.cuts)
    batches = home.match("--max-objects", str(per_batch))["batches"]
    assert len(batches) >= min(schedule.cuts, objects["rows"])
    assert sum(batch["objects"] for batch in batches) == objects["accepted"]


def run_in_between(home: Home, world: WrittenWorld, schedule: Schedule) -> None:
    """Ingest the files of both kinds by turns in `cuts` steps, and match after each; make the plans of `replans`."""
    first, second = ("objects", "requests") if schedule.objects_first else ("requests", "objects")
    files = {"objects": world.objects, "requests": world.requests}
    for step in range(schedule.cuts):
        for kind in (first, second):
            if mine := part(files[kind], step, schedule.cuts):
                home.ingest(kind, mine)
        if step in schedule.replans:
            planner, workers = schedule.replans[step]
            home.run("plan", "--kinds", names.REGION_KINDS, "--planner", planner, "--workers", str(workers))
        home.match()


def part(files: list[Path], step: int, cuts: int) -> list[Path]:
    """The files of one of the `cuts` steps, in log order."""
    return files[len(files) * step // cuts : len(files) * (step + 1) // cuts]


def assert_as_the_twin(home: Home, world: WrittenWorld) -> None:
    """The final matches and the counts of rejected rows are those of the twin."""
    outcome = twin.outcome_of(world.log, world.lateness_seconds)
    exported = home.exported()
    assert len(exported) == len(set(exported)), "a pair was delivered twice"
    missing, extra = outcome.matches - set(exported), set(exported) - outcome.matches
    assert (missing, extra) == (set(), set())
    assert by_rule(home) == dict(outcome.rejected)


def by_rule(home: Home) -> dict[tuple[str, str], int]:
    """Rejected rows by the twin's reasons: all row rules count as `bad_row`."""
    rules = {
        "late",
        "duplicate",
        "already_live",
        "empty_validity",
        "unknown_subscription",
        "before_insertion",
    }
    counts: dict[tuple[str, str], int] = {}
    for (kind, reason), n in home.rejects().items():
        key = kind, reason if reason in rules else "bad_row"
        counts[key] = counts.get(key, 0) + n
    return counts


@pytest.mark.promise
@pytest.mark.slow
@FEW
@given(seed=st.integers(0, 2**32 - 1), schedule=SCHEDULES)
def test_random_worlds_and_schedules(tmp_path_factory: pytest.TempPathFactory, seed: int, schedule: Schedule) -> None:
    folder = tmp_path_factory.mktemp("random")
    world = written(folder / "files", seed)
    home = home_for(folder, world, schedule)
    with pytest.MonkeyPatch.context() as patch:
        if schedule.divided:
            patch.setattr(worker_parts, "MIN_TASK_OBJECTS", 1)
        run_cut_by_objects(home, world, schedule)
    assert_as_the_twin(home, world)


@pytest.mark.slow
def test_seven_cuts_with_ingest_in_between(tmp_path: Path) -> None:
    schedule = Schedule("kd_tree", 16, objects_first=False, cuts=7, replans={3: ("hybrid", 1)})
    world = written(tmp_path / "files", 12, files=9, objects=180, requests=160)
    home = home_for(tmp_path, world, schedule)
    run_in_between(home, world, schedule)
    assert_as_the_twin(home, world)


@pytest.mark.promise
@pytest.mark.slow
def test_both_engines_write_the_same_tables(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 15, files=5, objects=180, requests=160)
    replans = {1: ("hybrid", 4), 2: ("kd_tree", 3)}
    local, on_spark = homes = [
        home_for(tmp_path / engine, world, Schedule("grid", 5, cuts=3, replans=replans, engine=engine))
        for engine in ("local", "spark")
    ]
    for home in homes:
        run_in_between(home, world, Schedule(cuts=3, replans=replans))
        assert_as_the_twin(home, world)
    assert_same_tables(local, on_spark)


@pytest.mark.parametrize(
    ("seed", "engine", "row_work"),
    [(21, "local", 10**6), (24, "local", 40), pytest.param(23, "spark", 0, marks=pytest.mark.slow)],
)
def test_late_subscriptions_ask_object_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, engine: str, row_work: int
) -> None:
    """All files of objects are in segments. Each late subscription asks them; some find no object."""
    monkeypatch.setattr(object_cache, "SETTLED_ROWS", 1)
    monkeypatch.setattr(wanted_rows, "ROW_WORK", row_work or wanted_rows.ROW_WORK)
    answers = []
    monkeypatch.setattr(
        route_task, "find_wanted_rows", lambda *asked: answers.append(find_wanted_rows(*asked)) or answers[-1]
    )
    world = written(tmp_path / "files", seed, files=6, objects=240, requests=160)
    schedule = Schedule("kd_tree", 5, cuts=6, replans={3: ("hybrid", 3)}, engine=engine)
    home = home_for(tmp_path, world, schedule)
    run_in_between(home, world, schedule)
    assert_as_the_twin(home, world)
    if engine == "local":
        assert sum(rows is not None and len(rows) for rows in answers) > 10
        assert any(rows is None for rows in answers) == (row_work == 40)


@pytest.mark.deep
def test_fifty_cuts(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 13, objects=100, requests=200)
    schedule = Schedule("kd_tree", 5, cuts=50)
    home = home_for(tmp_path, world, schedule)
    run_cut_by_objects(home, world, schedule)
    assert_as_the_twin(home, world)


@pytest.mark.parametrize("files", [7, pytest.param(50, marks=pytest.mark.deep)])
def test_the_cut_of_the_logs_into_files(tmp_path: Path, files: int) -> None:
    """Where the lateness holds everything, the cut of the log into files changes nothing either."""
    source = worlds.random_world(14, objects=150, requests=150, files=1)
    # Other files have other formats, in which attributes have other types, and Parquet has no unknown field.
    left_out = ("where", "keyword")
    asked = [{name: value for name, value in row.items() if name not in left_out} for row in source.request_files[0]]
    source, things = replace(source, request_files=[asked]), source.object_files[0]
    recut = replace(
        source,
        object_files=worlds.cut(things, files),
        request_files=worlds.cut(asked, files),
        lateness_seconds=10**9,
    )
    (tmp_path / "files").mkdir()
    world = worlds.write_world(tmp_path / "files", recut, 14)
    schedule = Schedule("grid", 4, objects_first=files != 7)
    home = home_for(tmp_path, world, schedule)
    run_cut_by_objects(home, world, schedule)
    assert_as_the_twin(home, world)
    uncut = worlds.write_world(tmp_path, replace(source, lateness_seconds=10**9), 0)
    assert twin.outcome_of(uncut.log, 10**9).matches == set(home.exported())


def test_files_offered_again_change_nothing(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 15, objects=80, requests=80)
    home = home_for(tmp_path, world, Schedule())
    ingest_world(home, world)
    home.match()
    before = home.exported()
    again, asked_again = ingest_world(home, world)
    assert (again["files_skipped"], again["rows"]) == (len(world.objects), 0)
    assert (asked_again["files_skipped"], asked_again["rows"]) == (len(world.requests), 0)
    home.match()
    assert home.exported() == before
    assert_as_the_twin(home, world)
