"""A worker matches objects with many matches in portions, and counts the CPU time of all that it does."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pststream.base import names
from pststream.engine import task_context
from pststream.engine.task_context import make_task_context
from pststream.kernels.matching.match_segment import Objects
from pststream.matching import matcher
from pststream.pipeline.batch import match_task
from pststream.pipeline.batch.match_task import WorkerReport, match_workers, merge_reports
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ObjectScan, route_objects
from pststream.pipeline.batch.worker_parts import whole_workers
from pststream.settings import load_settings
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.slices import KeyRange, split_into_tasks
from tests import worlds
from tests.commands import ingest_world, new_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Return a home whose requests are indexed by three workers."""
    folder = tmp_path_factory.mktemp("match_task")
    world = worlds.write_world(folder, worlds.random_world(7, objects=300, requests=200), 7)
    driven = new_home(folder / "home", planner="hybrid", workers=3, lateness_seconds=world.lateness_seconds)
    ingest_world(driven, world)
    driven.match()
    return Home(str(driven.path))


def match_all_objects(home: Home, tasks_of_workers: int = 3) -> Iterator[WorkerReport]:
    """Match all objects in this process, by so many tasks; yield the report of each worker."""
    context = make_task_context(home, load_settings(home.path), 1)
    context = replace(context, files=index_files(home, 1))
    every = KeyRange("object_key", -1, names.NEVER_US)
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, list_data_files(home, names.OBJECTS)))
    parts = whole_workers(context.workers, tasks_of_workers)
    scans = [ObjectScan(slices, every, NEW_OBJECTS) for slices in tasks]
    received = [sent for scan in scans for sent in route_objects(context, -1, parts, scan)]
    for task in range(parts.tasks):
        yield from match_workers(context, -1, task, ((tag, rows) for number, tag, rows in received if number == task))


def counts_of(report: WorkerReport) -> tuple[Any, ...]:
    """Return the counts of a worker that do not depend on the speed of the machine."""
    units = [rows.to_pylist() for rows in report.units]
    return report.matches, report.objects, sum(file.rows for file in report.files), units


def test_portions_change_no_match_and_no_count(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = [counts_of(report) for report in match_all_objects(home)]
    assert sum(matches for matches, *_ in at_once) > 100
    searches = []

    def counted(batch: Objects, *rest: Any) -> matcher.MatchedPairs:
        searches.append(len(batch.order))
        return matcher.match_objects(batch, *rest)

    task_context.chunk_size.cache_clear()
    monkeypatch.setattr("pststream.pipeline.batch.match_task.match_objects", counted)
    monkeypatch.setattr(matcher, "MAX_PAIRS", 10)
    assert [counts_of(report) for report in match_all_objects(home)] == at_once
    assert min(searches) < max(searches) // 4
    task_context.chunk_size.cache_clear()


def test_workers_of_a_task_share_a_file_of_bounded_size(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    apart, together = (list(match_all_objects(home, tasks)) for tasks in (3, 1))
    assert [len(report.files) for report in apart] == [1, 1, 1]
    assert [len(report.files) for report in merge_reports(together)] == [0, 0, 1]
    assert [counts_of(one)[3] for one in merge_reports(together)] == [counts_of(one)[3] for one in apart]
    monkeypatch.setattr(match_task, "MAX_FILE_BYTES", 1)
    (cut,) = (report.files for report in match_all_objects(home, 1) if report.files)
    assert len(cut) == 3 and sum(file.rows for file in cut) == sum(one.rows for report in apart for one in report.files)


def test_the_time_of_a_worker_includes_the_rows_that_are_written_at_the_end(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = FileWriter.close

    def slow_close(writer: FileWriter) -> DataFile | None:
        ends = time.thread_time() + 0.1
        while time.thread_time() < ends:
            pass
        return close(writer)

    monkeypatch.setattr(FileWriter, "close", slow_close)
    assert all(report.cpu_seconds >= 0.1 for report in match_all_objects(home))
    together = [report.cpu_seconds for report in match_all_objects(home, 1)]
    assert min(together) < 0.1 <= sum(together)
