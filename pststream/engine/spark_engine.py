"""Run tasks in Spark's Python workers, and shuffle their rows through the JVM as Arrow bytes.

Rows travel as Arrow record batches, one in each record of the shuffle, so that the JVM moves bytes and never opens a
row: reading and writing Parquet by rows, and converting rows to Arrow and back, cost several times the matching itself.
The tasks read and write the tables themselves (state/slices.py, state/data_files.py); the driver receives one small
value a task.
"""

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, dropwhile, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pststream.base.errors import RetryableError
from pststream.engine import code_version
from pststream.engine.contract import SentRows, Stage, Task, TaskEnded, Value
from pststream.engine.spark_session import is_local
from pststream.engine.stalled_jobs import cancelled_if_stalled
from pststream.engine.task_ends import reported_ends
from pststream.storage.parquet_files import raise_storage_error

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

SLOTS_PER_CORE = 2
"""Tasks that receive rows, for each core of this machine."""

MAX_CLUSTER_SLOTS = 1024
"""Tasks that receive rows on a cluster, at most. They are not counted by its cores, since the first tasks are split
before all nodes have joined.
"""

MAX_GROUPED_TASKS = 64
"""With at most this many sending tasks (most of them of `state.slices.SLICE_ROWS` rows), one receiving task may serve
several parts; it then has the rows of all these parts in memory at once.
"""

RETRYABLE = ("pststream.base.errors.RetryableError", "pststream.base.errors.PassingError")
"""Errors of tasks that the driver raises as RetryableError, as Spark names them."""

SentBytes = tuple[int, tuple[int, bytes]]
"""Sent rows as a record of Spark's shuffle: the part, the tag, the rows as an Arrow stream."""

_TASK_NUMBERS = count(1)
"""Numbers of the tasks of this process."""


class SparkEngine:
    """Runs tasks in the Python workers of one Spark context."""

    def __init__(self, context: "SparkContext") -> None:
        self._context = context

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time."""
        return int(self._context.defaultParallelism)

    def run_tasks(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Value],
        ended: TaskEnded | None = None,
        seconds: float | None = None,
    ) -> list[Value]:
        """Return the value of `function(task)` for each task, in no order.

        Raises TasksStalled if no task ends for `seconds`; Spark then kills the workers of the running tasks.
        """
        tasks, code = list(tasks), self._expected_code()
        if not tasks:
            return []
        with (
            cancelled_if_stalled(self._context.cancelAllJobs, ended, seconds) as timed,
            reported_ends(self._context, timed) as report,
        ):

            def run(numbers: Iterable[int]) -> Iterator[Value]:
                code_version.check_code_in_task(code)
                for number in numbers:
                    yield function(tasks[number])
                    report(0, number)
                _freeze_loaded_objects()

            return _collect(self._context.parallelize(range(len(tasks)), len(tasks)).mapPartitions(run))

    def run_shuffled(
        self,
        tasks: Sequence[Task],
        send: Callable[[Task], Iterable[SentRows]],
        stages: Sequence[Stage],
        ended: TaskEnded | None = None,
    ) -> list[Any]:
        """Return the values of the last stage, in no order; the whole chain is one job of Spark.

        On few cores one task runs several parts, one after the other, since a task costs more than a small part.
        """
        tasks, code = list(tasks), self._expected_code()
        if not tasks:
            return []
        with reported_ends(self._context, ended) as report:

            def send_all(numbers: Iterable[int]) -> Iterator[SentBytes]:
                code_version.check_code_in_task(code)
                for number in numbers:
                    yield from _rows_to_bytes(send(tasks[number]))
                    report(0, number)
                _freeze_loaded_objects()

            values = self._context.parallelize(range(len(tasks)), len(tasks)).mapPartitions(send_all)
            for place, stage in enumerate(stages, 1):
                slots = self._slots(stage, len(tasks))
                run = partial(
                    _run_parts, stage, slots < stage.parts, place == len(stages), code, partial(report, place)
                )
                values = values.partitionBy(slots, partial(_slot_of, slots)).mapPartitions(run)
            return _collect(values)

    def _slots(self, stage: Stage, tasks: int) -> int:
        """Return the number of tasks that run the parts of a stage; tasks: number of tasks before the first shuffle."""
        most = SLOTS_PER_CORE * self.parallelism if self._is_local() else MAX_CLUSTER_SLOTS
        return min(stage.parts, most) if tasks <= MAX_GROUPED_TASKS else stage.parts

    def _expected_code(self) -> str:
        """The digest of the code that nodes must run; empty (any code) on this machine alone."""
        return "" if self._is_local() else code_version.code_digest()

    def _is_local(self) -> bool:
        return is_local(str(self._context.master))


def _slot_of(slots: int, part: int) -> int:
    return part % slots


def _run_parts(
    stage: Stage,
    grouped: bool,
    is_last: bool,
    code: str,
    report: Callable[[int], None],
    received: Iterable[SentBytes],
) -> Iterator[Any]:
    """Run a stage in one task after the shuffle; yield the values of its parts, or what they send.

    grouped: the task may receive several parts; report: receives each part that has ended
    """
    code_version.check_code_in_task(code)
    if grouped:
        received = sorted(received, key=itemgetter(0))
    for part, of_part in groupby(received, key=itemgetter(0)):
        value = stage.function(part, ((tag, from_bytes(data)) for _, (tag, data) in of_part))
        if is_last:
            yield value
        else:
            yield from _rows_to_bytes(value)
        report(part)
    _freeze_loaded_objects()


def _rows_to_bytes(sent: Iterable[SentRows]) -> Iterator[SentBytes]:
    return ((part, (tag, to_bytes(rows))) for part, tag, rows in sent if rows.num_rows)


def _freeze_loaded_objects() -> None:
    """Exempt the objects that this process has loaded from garbage collection, after 1, 2, 4, 8, … tasks.

    Spark runs a full collection in its Python workers after each task. Modules and kernels are so many objects that the
    collection takes longer than a small task.
    """
    number = next(_TASK_NUMBERS)
    if number & (number - 1) == 0:
        gc.collect()
        gc.freeze()


def _collect(values: "RDD[Value]") -> list[Value]:
    """Return all values on the driver.

    Not by `RDD.collect`: that serves the values at a new socket each time, the JVM keeps the name of each socket for
    ever, and a watcher's JVM lives for months.
    """
    try:
        return [value for batch in values._jrdd.collect() for value in pickle.loads(batch)]
    except Exception as error:
        code_version.explain_if_other_code(error)
        raise_storage_error(error)
        text = _error_of_task(str(error))
        kind, _, message = text.partition(": ")
        if kind in RETRYABLE:
            raise RetryableError(*message.split("\n  ", 1)) from error
        if text:
            raise RuntimeError(f"a task on Spark failed: {text}") from error
        raise


def _error_of_task(text: str) -> str:
    """Return the last Python error in the text of an error of Spark: its type and message; empty if there is none."""
    _, _, traceback = text.rpartition("Traceback (most recent call last):\n")
    lines = traceback.partition("\n\tat ")[0].splitlines() if traceback != text else []
    return "\n".join(dropwhile(lambda line: not line.strip() or line.startswith(" "), lines)).strip()


def to_bytes(rows: pa.RecordBatch) -> bytes:
    """Return a record batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.RecordBatch:
    """Return the record batch of an Arrow stream that `to_bytes` made."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()
