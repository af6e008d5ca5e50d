"""Log what a micro-batch changes in the reports of `frequent_terms` subscriptions, in one commit of `answer_log`.

All subscriptions and ticks of the batch are questions about stored objects, asked in tasks of the engine. A task reads
the subscriptions of its share, and writes its rows as it goes, a part of the ticks at a time. Nothing but the two logs
decides the rows, so a step that was killed runs again with the same result.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.answers.contract import bucket_of
from pststream.base import names
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import cache_place
from pststream.pipeline.answers.report_changes import ReportContext, open_logged_reports, report_changes
from pststream.pipeline.answers.standing_regions import RegionLog, RegionShare, list_regions
from pststream.queries.kinds.frequent_terms import NAME
from pststream.search.open_snapshot import list_segments
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.ledgers import AnswerCounts
from pststream.tables.log_events import withdrawn_objects

SCHEMA = TABLES[names.ANSWER_LOG].schema
TRANSACTIONS = "reports"
"""The application of the commits' transaction ids, which are numbers of batches."""

TASK_REGIONS = 8_192
"""Subscriptions of a task: each task counts all stored objects by time once."""


def log_reports(
    home: Home, settings: Settings, batch: Mapping[str, Any], stream_before: int, stream_time: int
) -> AnswerCounts:
    """Append the changes that a batch (a row of `batches`) makes in reports to `answer_log`, and count them.

    stream_before, stream_time: at the end of the batch before and of this one; microseconds, names.NO_TIME: no object
    """
    cache = cache_place(settings)
    log = list_regions(home, batch["requests_after"], batch["requests_to"], *cache)
    if log is None:
        return AnswerCounts()
    context = ReportContext(
        list_segments(home, *cache),
        batch["objects_after"],
        batch["objects_to"],
        batch["requests_after"],
        stream_before,
        stream_time,
        withdrawn_objects(home, up_to=batch["objects_after"]),
        withdrawn_objects(home, up_to=batch["objects_to"]),
        open_logged_reports(home, batch["batch_id"]),
    )
    write = partial(_write_changes, home.table(names.ANSWER_LOG), batch["batch_id"], home.answer_buckets, context, log)
    written = list(get_engine(settings).run_tasks(log.divide(TASK_REGIONS), write))
    files = [file for file, _ in written if file is not None]
    commit_files(home, names.ANSWER_LOG, files, application=TRANSACTIONS, transaction=batch["batch_id"])
    return AnswerCounts(
        changes=Counter({NAME: sum(file.rows for file in files)}),
        evaluations=Counter({NAME: sum(reports for _, reports in written)}),
    )


def _write_changes(
    root: str, batch_id: int, buckets: int, context: ReportContext, log: RegionLog, shares: tuple[RegionShare, ...]
) -> tuple[DataFile | None, int]:
    """Write the changes of shares of the subscriptions as a data file; return it and the number of changed reports."""
    writer, reports = FileWriter(root, SCHEMA, {"part": "change"}), 0
    for rows in report_changes(context, log.read(shares)):
        key = rows.column("subscription_key").to_numpy()
        reports += pa.table(rows).group_by(["subscription_key", "ts"]).aggregate([]).num_rows
        added = {
            "batch_id": pa.array(np.full(len(key), batch_id)),
            "bucket": pa.array(bucket_of(key, buckets)),
        }
        known = added | dict(zip(rows.schema.names, rows.columns))
        columns = {field.name: known.get(field.name, pa.nulls(len(key), field.type)) for field in writer.schema}
        writer.write(pa.RecordBatch.from_pydict(columns, schema=writer.schema))
    return writer.close(), reports
