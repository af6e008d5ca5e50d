"""Objects with many matches are matched in portions, with the same matches and counts as at once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pststream import names
from pststream.matching import matcher
from pststream.pipeline.batch.match_task import match_worker
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ObjectScan, route_objects
from pststream.pipeline.engine import task_context
from pststream.pipeline.engine.task_context import make_task_context
from pststream.settings import load_settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.slices import KeyRange, split_into_tasks
from tests import worlds
from tests.commands import ingest_world, new_home

pytestmark = pytest.mark.spark


def match_all_objects(home: Home) -> list[tuple[Any, ...]]:
    """Match all objects in this process; return the counts of each worker."""
    context = make_task_context(home, load_settings(home.path), 1)
    context = replace(context, files=tuple(index_files(home, 1)))
    every = KeyRange("object_key", -1, names.NEVER_US)
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, list_data_files(home, names.OBJECTS)))
    received = [sent for slices in tasks for sent in route_objects(context, -1, ObjectScan(slices, every, NEW_OBJECTS))]
    counts = []
    for worker in range(context.workers):
        of_worker = iter([(tag, rows) for number, tag, rows in received if number == worker])
        report = match_worker(context, -1, worker, of_worker)
        units = [(u.objects.tolist(), u.candidates.tolist(), u.matches.tolist()) for u in report.counts.units]
        counts.append((report.counts.matches, report.counts.objects, sum(file.rows for file in report.files), units))
    return counts


def test_portions_change_no_match_and_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds.write_world(tmp_path, worlds.random_world(7, objects=300, requests=200), 7)
    driven = new_home(tmp_path / "home", planner="hybrid", workers=3, lateness_seconds=world.lateness_seconds)
    ingest_world(driven, world)
    driven.match()
    home = Home(str(driven.path))
    at_once = match_all_objects(home)
    assert sum(matches for matches, *_ in at_once) > 100
    searches = []

    def counted(batch: matcher.ObjectBatch, *rest: Any) -> matcher.MatchedPairs:
        searches.append(batch.objects)
        return matcher.match_objects(batch, *rest)

    task_context.chunk_size.cache_clear()
    monkeypatch.setattr("pststream.pipeline.batch.worker_search.match_objects", counted)
    monkeypatch.setattr(matcher, "MAX_PAIRS", 10)
    assert match_all_objects(home) == at_once
    assert min(searches) < max(searches) // 4
    task_context.chunk_size.cache_clear()
