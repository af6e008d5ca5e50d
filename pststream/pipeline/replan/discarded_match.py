"""Match stored objects against the present index of a home, and delete the matches: to measure, or to fill caches."""

from dataclasses import replace

from pststream.base import names
from pststream.engine.task_context import make_task_context
from pststream.pipeline.batch.match_task import WorkerReport
from pststream.pipeline.batch.micro_batch import route_and_match
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ObjectScan
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.slices import KeyRange, split_into_tasks
from pststream.storage.parquet_files import delete_files


def match_and_discard(
    home: Home, settings: Settings, plan_version: int, part: slice, after_key: int = -1
) -> list[WorkerReport]:
    """Match the objects of some tasks (`part` of all) under a plan; delete the matches, return the reports.

    after_key: only objects with a greater key. Nothing is folded: candidates of subscriptions with memory are dropped.
    """
    context = replace(make_task_context(home, settings, plan_version), files=tuple(index_files(home, plan_version)))
    keys = KeyRange("object_key", after_key, names.MAX_INT64)
    files = keys.files(list_data_files(home, names.OBJECTS))
    tasks = split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))[part]
    reports = route_and_match(settings, context, [ObjectScan(slices, keys, NEW_OBJECTS) for slices in tasks], -1)
    root = home.table(names.MATCHES)
    delete_files([f"{root}/{file.path}" for report in reports for file in report.files])
    return reports
