"""Run the baseline jobs of a micro-batch: the same reads and writes with made-up matches, without matching.

`run_baseline` is our own job: routed, shuffled and written by tasks. `run_spark_baseline` is the job that a user would
write with Spark's Delta reader, one shuffle, an Arrow function and Spark's Delta writer.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.pipeline.batch.match_task import MATCHES, match_rows
from pststream.pipeline.batch.route_task import NEW_OBJECTS, ROUTE_COUNTS, ObjectScan, route_objects
from pststream.pipeline.engine.arrow_columns import lists
from pststream.pipeline.engine.contract import ReceivedRows, Stage
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.spark_session import get_session
from pststream.pipeline.engine.task_context import TaskContext, make_task_context
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.state.slices import KeyRange, split_into_tasks


def run_baseline(home: Home, settings: Settings, after: int, to: int, pairs: int, out: str) -> int:
    """Route the objects with keys in (after, to], write `pairs` made-up keys for each below `out`; return the rows."""
    version = current_version(home)
    work = replace(make_task_context(home, settings, version), files=tuple(index_files(home, version)))
    rows = KeyRange("object_key", after, to)
    files = rows.files(list_data_files(home, names.OBJECTS))
    scans = [
        ObjectScan(slices, rows, NEW_OBJECTS)
        for slices in split_into_tasks(addresses_and_rows(home, names.OBJECTS, files))
    ]
    write = partial(_write_made_up, work, pairs, out)
    written = get_engine(settings).run_shuffled(scans, partial(route_objects, work, -1), [Stage(work.workers, write)])
    return sum(file.rows for file in written if file)


def run_spark_baseline(home: Home, settings: Settings, after: int, to: int, pairs: int, out: str) -> None:
    """Run the same job with Spark's own reader, shuffle and writer: every object goes to one partition by its key."""
    spark, work = get_session(settings), make_task_context(home, settings, current_version(home))
    objects = (
        spark.read.format("delta").load(home.table(names.OBJECTS)).where(f"object_key > {after} AND object_key <= {to}")
    )
    columns = ("object_key", "object_id", "ts", "lon", "lat", "terms")
    sent = objects.select(*columns).repartition(work.workers, "object_key")
    schema = spark.read.format("delta").load(home.table(names.MATCHES)).schema
    sent.mapInArrow(partial(_made_up_rows, work, pairs), schema).write.format("delta").mode("overwrite").save(out)


def _made_up_rows(work: TaskContext, pairs: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(1)
    for rows in batches:
        yield match_rows(rows, _keys(rng, rows.num_rows, pairs), work, 0)


def _keys(rng: np.random.Generator, rows: int, pairs: int) -> pa.ListArray:
    offsets = np.arange(rows + 1) * pairs
    return lists(offsets, rng.integers(0, 2**40, rows * pairs))


def _write_made_up(work: TaskContext, pairs: int, out: str, worker: int, received: ReceivedRows) -> DataFile | None:
    rng = np.random.default_rng(1)
    writer = FileWriter(out, MATCHES)
    for tag, rows in received:
        if tag != ROUTE_COUNTS:
            writer.write(match_rows(rows, _keys(rng, rows.num_rows, pairs), work, worker))
    return writer.close()
