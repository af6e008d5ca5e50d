"""The floor of a micro-batch: the same job without the kernel, for benchmarks to compare with."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.pipeline.executor import Work
from pststream.pipeline.match_tasks import COUNTED, MATCHES, NEW, Scan, match_rows, route
from pststream.pipeline.spark_tasks import run_shuffled
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, data_files, located
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.state.session import get_context
from pststream.state.slices import Range, tasks_of


def run_floor(home: Home, settings: Settings, after: int, to: int, workers: int, pairs: int, out: str) -> int:
    """Route the objects with keys in (after, to], and write `pairs` made-up keys for each below `out`; rows written."""
    version = current_version(home)
    files = tuple(index_files(home, version))
    work = Work(home.path, version, workers, 0, files, settings.cache_dir, settings.cache_bytes)
    rows = Range("object_key", after, to)
    held = rows.files(data_files(home, names.OBJECTS))
    scans = [Scan(slices, rows, NEW) for slices in tasks_of(located(home, names.OBJECTS, held))]
    made_up = partial(_made_up, work, pairs, out)
    written = run_shuffled(get_context(settings), scans, partial(route, work, -1), workers, made_up)
    return sum(file.rows for file in written if file)


def _made_up(
    work: Work, pairs: int, out: str, worker: int, parcels: Iterator[tuple[int, pa.RecordBatch]]
) -> DataFile | None:
    rng = np.random.default_rng(1)
    writer = FileWriter(out, MATCHES)
    for tag, rows in parcels:
        if tag != COUNTED:
            keys = rng.integers(0, 2**40, rows.num_rows * pairs)
            offsets = np.arange(rows.num_rows + 1) * pairs
            lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(keys))
            writer.write(match_rows(rows, lists, work, worker))
    return writer.close()
