"""How the pipeline uses Spark: tasks that return a value, and tasks whose rows go through one shuffle.

Rows travel as Arrow batches, one in each row of the shuffle, so that the JVM moves bytes and never opens a row: reading
and writing Parquet by rows, and turning rows into Arrow and back, cost several times the matching itself. Tables are
read and written by the tasks (state/slices.py, state/data_files.py); what comes back to the driver is a small value a
task.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Task = TypeVar("Task")
Value = TypeVar("Value")
Batches = Iterator[pa.RecordBatch]
Parcel = tuple[int, int, pa.RecordBatch]
"""The part that rows go to, a tag that the receiver tells them by, the rows."""

SLOTS_PER_CORE = 2
_PARCELS = pa.schema([("part", pa.int32()), ("tag", pa.int32()), ("rows", pa.binary())])
_VALUES = pa.schema([("value", pa.binary())])


def run_tasks(spark: "SparkSession", tasks: Sequence[Task], work: Callable[[Task], Value]) -> list[Value]:
    """What `work` returns for each task, in no order; both travel pickled."""
    if not tasks:
        return []

    def each(task: Task) -> Batches:
        yield _value(work(task))

    return _values(_spread(spark, tasks, each, "value binary"))


def run_shuffled(
    spark: "SparkSession",
    tasks: Sequence[Task],
    work: Callable[[Task], Iterable[Parcel]],
    parts: int,
    receive: Callable[[int, Iterator[tuple[int, pa.RecordBatch]]], Value],
) -> list[Value]:
    """What `receive(part, parcels)` returns for each of `parts` parts that some task sent rows to, in no order.

    Few cores do many parts in turn: a task costs more than a small part.
    """
    from pyspark.sql import functions as f

    if not tasks:
        return []
    slots = min(parts, SLOTS_PER_CORE * spark.sparkContext.defaultParallelism)

    def send(task: Task) -> Batches:
        for part, tag, rows in work(task):
            if rows.num_rows:
                yield pa.RecordBatch.from_arrays(
                    [pa.array([part], pa.int32()), pa.array([tag], pa.int32()), pa.array([packed(rows)])],
                    schema=_PARCELS,
                )

    def take(batches: Batches) -> Batches:
        for part, parcels in groupby(_parcels(batches), key=itemgetter(0)):
            yield _value(receive(part, (parcel[1:] for parcel in parcels)))

    sent = _spread(spark, tasks, send, "part int, tag int, rows binary")
    brought = sent.repartitionById(slots, f.col("part") % slots)
    if slots < parts:
        brought = brought.sortWithinPartitions("part")
    return _values(brought.mapInArrow(take, "value binary"))


def packed(rows: pa.RecordBatch) -> bytes:
    """A batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def unpacked(data: pa.Buffer) -> pa.RecordBatch:
    """The batch that `packed` made bytes of."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _spread(spark: "SparkSession", tasks: Sequence[Task], work: Callable[[Task], Batches], schema: str) -> "DataFrame":
    """A data frame of a partition a task, with the rows that `work` yields."""
    held = list(tasks)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(held[number])

    return spark.range(0, len(held), 1, len(held)).mapInArrow(run, schema)


def _value(value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(value)], pa.binary())], schema=_VALUES)


def _values(frame: "DataFrame") -> list[Any]:
    return [pickle.loads(bytes(row[0])) for row in frame.collect()]


def _parcels(batches: Batches) -> Iterator[Parcel]:
    for batch in batches:
        parts, tags, rows = (batch.column(place) for place in range(3))
        for number in range(batch.num_rows):
            yield parts[number].as_py(), tags[number].as_py(), unpacked(rows[number].as_buffer())
