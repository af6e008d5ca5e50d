"""The floor of a micro-batch: the same job without the kernel, for benchmarks to compare with."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.pipeline.executor import Work
from pststream.pipeline.index import spark_schema
from pststream.pipeline.match_tasks import MATCHES, ROUTED, Batches, route_task
from pststream.settings import Settings
from pststream.state import delta
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import current_version
from pststream.state.session import get_session


def run_floor(home: Home, settings: Settings, after: int, to: int, workers: int, pairs: int, out: str) -> None:
    """Route the objects with keys in (after, to], and write `pairs` made-up keys for each to a Delta table at `out`."""
    from pyspark.sql import functions as f

    spark = get_session(settings)
    version = current_version(home)
    work = Work(
        home.path, version, workers, 0, tuple(index_files(home, version)), settings.cache_dir, settings.cache_bytes
    )
    objects = delta.read(spark, home, names.OBJECTS).where((f.col("object_key") > after) & (f.col("object_key") <= to))
    columns = ("object_key", "object_id", "ts", "lon", "lat", "terms")
    routed = objects.select(*columns).mapInArrow(route_task(work), spark_schema(ROUTED))
    parted = routed.repartitionById(workers, f.col("worker"))
    parted.mapInArrow(_made_up(pairs), spark_schema(MATCHES)).write.format("delta").mode("overwrite").save(out)


def _made_up(pairs: int) -> Callable[[Batches], Batches]:
    def task(batches: Batches) -> Batches:
        rng = np.random.default_rng(1)
        for batch in batches:
            count = batch.num_rows
            keys = rng.integers(0, 2**40, count * pairs)
            offsets = np.arange(0, (count + 1) * pairs, pairs) if pairs else np.zeros(count + 1)
            columns: dict[str, Any] = {
                "object_key": batch.column("object_key"),
                "object_id": batch.column("object_id"),
                "ts": batch.column("ts"),
                "subscription_keys": pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(keys)),
                "retracted": pa.array(np.zeros(count, bool)),
                "worker": batch.column("worker"),
                "batch_id": pa.array(np.zeros(count, np.int64)),
                "plan_version": pa.array(np.zeros(count, np.int64)),
            }
            yield pa.RecordBatch.from_arrays(
                [columns[n].cast(MATCHES.field(n).type) for n in MATCHES.names], schema=MATCHES
            )

    return task
