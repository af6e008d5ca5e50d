"""Run the baseline jobs of a micro-batch: the same reads and writes, without the search for pairs.

`match` itself is the baseline, with `replay_pairs`: its searches return the pairs that an earlier batch of the same
objects found (`record_pairs`). All else is the same: it reads and routes the objects, takes their columns, writes equal
rows, flushes and commits them, and writes the ledgers. Only the search is left out (`WorkerSearch.find_pairs`): units
of terms, Morton order, matching kernel, counts by unit. As the pairs are in this process, so must be the tasks.

`run_spark_baseline` is the job that a user would write with Spark's Delta reader, one shuffle, an Arrow function and
Spark's Delta writer.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import lists
from pststream.engine.spark_session import get_session
from pststream.engine.task_context import TaskContext, make_task_context
from pststream.pipeline.batch.match_task import FoundPairs, WorkerSearch, match_rows
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.plans import current_version

Search = Callable[[WorkerSearch, pa.RecordBatch, int], FoundPairs]
RecordedPairs = dict[tuple[int, str, int], FoundPairs]
"""The pairs of each search of a batch: by its worker, the id of its first object and the number of its objects."""


@contextmanager
def record_pairs() -> Iterator[RecordedPairs]:
    """Record the pairs of each search of this process while the block runs; return them."""
    recorded: RecordedPairs = {}
    find_pairs = WorkerSearch.find_pairs

    def find_and_record(search: WorkerSearch, objects: pa.RecordBatch, after_key: int) -> FoundPairs:
        pairs = find_pairs(search, objects, after_key)
        recorded[_key_of(search, objects)] = pairs
        return pairs

    with _search_by(find_and_record):
        yield recorded


def replay_pairs(recorded: RecordedPairs) -> AbstractContextManager[None]:
    """Return the recorded pairs instead of searching while the block runs. A search that is not recorded fails."""
    return _search_by(lambda search, objects, after_key: recorded[_key_of(search, objects)])


def find_no_pairs() -> AbstractContextManager[None]:
    """Let no object match anything while the block runs."""
    none = np.empty(0, np.int64)
    return _search_by(lambda search, objects, after_key: FoundPairs(none, np.zeros(objects.num_rows + 1, int), none))


@contextmanager
def _search_by(find_pairs: Search) -> Iterator[None]:
    with patch.object(WorkerSearch, "find_pairs", find_pairs):
        yield


def _key_of(search: WorkerSearch, objects: pa.RecordBatch) -> tuple[int, str, int]:
    return search.worker, objects.column("object_id")[0].as_py(), objects.num_rows


def write_sample(recorded: RecordedPairs, path: str) -> None:
    """Write the lists of subscription keys of one search to an Arrow file, for `run_spark_baseline`."""
    pairs = next(iter(recorded.values()))
    rows = pa.RecordBatch.from_arrays([lists(pairs.offsets, pairs.keys)], ["keys"])
    with pa.ipc.new_file(path, rows.schema) as file:
        file.write_batch(rows)


def run_spark_baseline(home: Home, settings: Settings, after: int, to: int, sample: str, out: str) -> None:
    """Give each object with a key in (after, to] a list of keys of a sample (`write_sample`), and write it below `out`.

    Spark reads, shuffles and writes: every object goes to one partition by its key.
    """
    spark, work = get_session(settings), make_task_context(home, settings, current_version(home))
    objects = (
        spark.read.format("delta").load(home.table(names.OBJECTS)).where(f"object_key > {after} AND object_key <= {to}")
    )
    columns = ("object_key", "object_id", "ts", "lon", "lat", "terms")
    sent = objects.select(*columns).repartition(work.workers, "object_key")
    schema = spark.read.format("delta").load(home.table(names.MATCHES)).schema
    sent.mapInArrow(partial(_sampled_rows, work, sample), schema).write.format("delta").mode("overwrite").save(out)


def _sampled_rows(work: TaskContext, sample: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    keys, first = pa.ipc.open_file(pa.memory_map(sample)).get_batch(0).column("keys"), 0
    for rows in batches:
        places = np.arange(first, first + rows.num_rows) % len(keys)
        first += rows.num_rows
        yield match_rows(rows, keys.take(pa.array(places)), work, 0)
