"""How the pipeline uses Spark: tasks that return a value, and tasks whose rows go through one shuffle.

Rows travel as Arrow batches, one in each record of the shuffle, so that the JVM moves bytes and never opens a row:
reading and writing Parquet by rows, and turning rows into Arrow and back, cost several times the matching itself.
Tables are read and written by the tasks (state/slices.py, state/data_files.py); what comes back to the driver is a
small value a task.
"""

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from pststream.pipeline.engine import code_version
from pststream.pipeline.engine.spark_session import is_local
from pststream.storage import arrow_files

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

Task = TypeVar("Task")
Value = TypeVar("Value")
Parcel = tuple[int, int, pa.RecordBatch]
"""The part that rows go to, a tag that the receiver tells them by, the rows."""

SLOTS_PER_CORE = 2
MOST_HELD = 64
"""Tasks (of `state.slices.SLICE_ROWS` rows, most of them) whose rows may be in the memory of a machine at once."""

_TASKS = count(1)
"""Numbers of the tasks of this process."""

MOST_SLOTS = 1024
"""Of a cluster: its cores at the moment tell little, as the first tasks are cut before the nodes have come."""


def run_tasks(context: "SparkContext", tasks: Sequence[Task], work: Callable[[Task], Value]) -> list[Value]:
    """What `work` returns for each task, in no order; both travel pickled."""
    held, code = list(tasks), _code(context)
    if not held:
        return []

    def run(numbers: Iterable[int]) -> Iterator[Value]:
        code_version.check(code)
        for number in numbers:
            yield work(held[number])
        _freeze()

    return _collected(context.parallelize(range(len(held)), len(held)).mapPartitions(run))


def run_shuffled(
    context: "SparkContext",
    tasks: Sequence[Task],
    work: Callable[[Task], Iterable[Parcel]],
    parts: int,
    receive: Callable[[int, Iterator[tuple[int, pa.RecordBatch]]], Value],
) -> list[Value]:
    """What `receive(part, parcels)` returns for each of `parts` parts that some task sent rows to, in no order.

    Few cores do many parts in turn, as a task costs more than a small part; the rows of all parts of a task are then in
    memory at once, which is for up to MOST_HELD tasks' rows in all, else they are streamed.
    """
    held, code = list(tasks), _code(context)
    if not held:
        return []
    few = SLOTS_PER_CORE * context.defaultParallelism if _is_alone(context) else MOST_SLOTS
    slots = min(parts, few) if len(held) <= MOST_HELD else parts

    def send(numbers: Iterable[int]) -> Iterator[tuple[int, tuple[int, bytes]]]:
        code_version.check(code)
        for number in numbers:
            for part, tag, rows in work(held[number]):
                if rows.num_rows:
                    yield part, (tag, packed(rows))
        _freeze()

    def take(parcels: Iterable[tuple[int, tuple[int, bytes]]]) -> Iterator[Value]:
        code_version.check(code)
        if slots < parts:
            parcels = sorted(parcels, key=itemgetter(0))
        for part, mine in groupby(parcels, key=itemgetter(0)):
            yield receive(part, ((tag, unpacked(data)) for _, (tag, data) in mine))
        _freeze()

    sent = context.parallelize(range(len(held)), len(held)).mapPartitions(send)
    return _collected(sent.partitionBy(slots, lambda part: part % slots).mapPartitions(take))


def _freeze() -> None:
    """Leave what this process has loaded to no further search for garbage, after 1, 2, 4, 8, … tasks.

    Spark has its Python workers search all they hold after each task, and modules and kernels are so many objects that
    this takes longer than a small task.
    """
    number = next(_TASKS)
    if number & (number - 1) == 0:
        gc.collect()
        gc.freeze()


def _code(context: "SparkContext") -> str:
    """What the nodes are to run; of this machine alone nothing is asked."""
    return "" if _is_alone(context) else code_version.code()


def _is_alone(context: "SparkContext") -> bool:
    return is_local(str(context.master))


def _collected(values: "RDD[Value]") -> list[Value]:
    """Not by `RDD.collect`, which serves them at a new socket each time: the JVM never forgets its name, and that of a
    watcher lives for months.
    """
    try:
        return [value for batch in values._jrdd.collect() for value in pickle.loads(batch)]
    except Exception as error:
        code_version.explain(error)
        arrow_files.explain(error)
        raise


def packed(rows: pa.RecordBatch) -> bytes:
    """A batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.RecordBatch:
    """The batch that `packed` made bytes of."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()
