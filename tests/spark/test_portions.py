"""Objects that match much are matched a portion at a time, and nothing else is told than by one search."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pststream import names
from pststream.matching import matcher
from pststream.pipeline.batch.match_tasks import NEW, Report, Scan, match_worker, route
from pststream.pipeline.engine import task_context
from pststream.pipeline.engine.task_context import make_task_context
from pststream.settings import load_settings
from pststream.state.data_files import data_files, located
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.slices import KeyRange, tasks_of
from tests import worlds
from tests.commands import ingest_world, new_home

pytestmark = pytest.mark.spark


def told(home: Home) -> list[tuple[Any, ...]]:
    """What the workers tell of all objects, matched in this process."""
    work = make_task_context(home, load_settings(home.path), 1)
    work = replace(work, files=tuple(index_files(home, 1)))
    every = KeyRange("object_key", -1, names.NEVER_US)
    tasks = tasks_of(located(home, names.OBJECTS, data_files(home, names.OBJECTS)))
    received = [parcel for slices in tasks for parcel in route(work, -1, Scan(slices, every, NEW))]
    found = []
    for worker in range(work.workers):
        mine = iter([(tag, rows) for number, tag, rows in received if number == worker])
        report: Report = match_worker(work, -1, worker, mine)
        units = [(u.objects.tolist(), u.candidates.tolist(), u.matches.tolist()) for u in report.tally.units]
        found.append((report.tally.matches, report.tally.objects, sum(file.rows for file in report.files), units))
    return found


def test_portions_tell_what_one_search_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds.write_world(tmp_path, worlds.random_world(7, objects=300, requests=200), 7)
    driven = new_home(tmp_path / "home", planner="hybrid", workers=3, lateness_seconds=world.lateness_seconds)
    ingest_world(driven, world)
    driven.match()
    home = Home(str(driven.path))
    whole = told(home)
    assert sum(matches for matches, *_ in whole) > 100
    searches = []

    def counted(batch: matcher.ObjectBatch, *rest: Any) -> matcher.Found:
        searches.append(batch.objects)
        return matcher.match_objects(batch, *rest)

    task_context.portions.cache_clear()
    monkeypatch.setattr("pststream.pipeline.batch.match_tasks.match_objects", counted)
    monkeypatch.setattr(matcher, "MOST_PAIRS", 10)
    assert told(home) == whole
    assert min(searches) < max(searches) // 4
    task_context.portions.cache_clear()
