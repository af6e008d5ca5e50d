"""Run tasks on Spark by DataFrames of Spark Connect, and shuffle their rows through the JVM as Arrow bytes.

A task is a row of a local DataFrame with a partition of its own, so that each executor receives its own tasks alone;
`mapInArrow` runs it. Sent rows travel as Arrow streams in a binary column, one record batch in each row, which
`repartitionById` brings to their parts: the JVM moves bytes and never opens them. Converting rows to Arrow and back
costs several times the matching itself. The tasks read and write the tables themselves (state/slices.py,
state/data_files.py); the driver receives one small value for each task.
"""

import gc
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import count, dropwhile, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pststream.base.errors import RetryableError
from pststream.engine import code_version
from pststream.engine.contract import SentRows, Stage, StageProgress, Task, TasksStalled, Value, ran_at
from pststream.engine.spark_session import EngineSession
from pststream.storage.parquet_files import raise_storage_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo
    from pyspark.sql.types import StructType

SLOTS_PER_CORE = 2
"""Tasks that receive rows, for each core."""

MAX_GROUPED_TASKS = 64
"""With at most this many sending tasks (most of them of `state.slices.SLICE_ROWS` rows), one receiving task may serve
several parts; it then has the rows of all these parts in memory at once.
"""

MAX_CELL_BYTES = 1 << 30
"""Bytes of rows in one cell of a DataFrame: Java's arrays end at 2 GiB."""

RETRYABLE = ("pststream.base.errors.RetryableError", "pststream.base.errors.PassingError")
"""Errors of tasks that the driver raises as RetryableError, as Spark names them."""

TASKS = pa.schema([("number", pa.int32()), ("task", pa.binary())])
VALUES = pa.schema([("value", pa.binary())])
SENT = pa.schema([("part", pa.int32()), ("tag", pa.int64()), ("slot", pa.int32()), ("rows", pa.binary())])

_TASK_NUMBERS = count(1)
"""Numbers of the tasks of this process."""


class SparkEngine:
    """Runs tasks in the Python workers of a Spark Connect server."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time: the cores that Spark has now."""
        return self._session.cores()

    def run_tasks(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Value],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Value]:
        """Return the value of `function(task)` for each task, in no order.

        Raises TasksStalled if no task ends for `seconds`; Spark then kills the workers of the running tasks.
        """
        tasks, code = list(tasks), self._session.expected_code()
        if not tasks:
            return []

        def make(session: "SparkSession") -> "DataFrame":
            run = _named(partial(_run_tasks, code, function), function)
            return _frame_of(session, tasks).mapInArrow(run, _columns(VALUES))

        return self._collect(make, [_name(function)], ended, seconds)

    def run_shuffled(
        self,
        tasks: Sequence[Task],
        send: Callable[[Task], Iterable[SentRows]],
        stages: Sequence[Stage],
        ended: StageProgress | None = None,
    ) -> list[Any]:
        """Return the values of the last stage, in no order; the whole chain is one job of Spark.

        On few cores one task runs several parts, one after the other, since a task costs more than a small part.
        """
        tasks, code = list(tasks), self._session.expected_code()
        if not tasks:
            return []
        slots = [self._slots(stage, len(tasks)) for stage in stages]

        def make(session: "SparkSession") -> "DataFrame":
            first = _named(partial(_send_rows, code, send, slots[0]), send)
            frame = _frame_of(session, tasks).mapInArrow(first, _columns(SENT))
            for place, stage in enumerate(stages):
                after = slots[place + 1] if place + 1 < len(stages) else None
                frame = frame.repartitionById(1 + max(slots[place]), "slot").mapInArrow(
                    _named(partial(_run_parts, code, stage, after), stage.function),
                    _columns(VALUES if after is None else SENT),
                )
            return frame

        return self._collect(make, [_name(send), *(_name(stage.function) for stage in stages)], ended)

    def _slots(self, stage: Stage, tasks: int) -> tuple[int, ...]:
        """Return the task that runs each part of a stage; tasks: number of tasks before the first shuffle."""
        if stage.slots:
            return stage.slots
        most = SLOTS_PER_CORE * self.parallelism
        number = min(stage.parts, most) if tasks <= MAX_GROUPED_TASKS else stage.parts
        return tuple(part % number for part in range(stage.parts))

    def _collect(
        self,
        make: Callable[["SparkSession"], "DataFrame"],
        steps: Sequence[str],
        ended: StageProgress | None,
        seconds: float | None = None,
    ) -> list[Any]:
        """Return the values of a frame; `make` makes it in a session, again in a new one if the server closed it.

        steps: what its stages do, by which Spark's pages name the operation
        """
        try:
            values = self._session.run(lambda session: _values(session, make(session), steps, ended, seconds))
        except TasksStalled:
            raise
        except Exception as error:
            _raise_task_error(error)
            raise
        ran_at(self._session.place)
        return [pickle.loads(one.as_buffer()) for one in values]


@lru_cache
def _columns(schema: pa.Schema) -> "StructType":
    """Return a schema for Spark; given as text, the server would have to read it in each call."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _name(function: Callable[..., Any]) -> str:
    """Return the name of a function, which may be partly applied, in words."""
    while isinstance(function, partial):
        function = function.func
    return function.__name__.strip("_").replace("_", " ")


def _named(run: "partial[Iterator[pa.RecordBatch]]", function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what Spark runs, under the name of the function of the engine's caller, by which Spark's plans show it."""
    run.__name__ = _name(function).replace(" ", "_")  # type: ignore[attr-defined]
    return run


def _frame_of(session: "SparkSession", tasks: Sequence[Any]) -> "DataFrame":
    """Return tasks as rows; the session's settings give each row a partition of its own."""
    from pyspark.cloudpickle import dumps

    return session.createDataFrame(pa.table([range(len(tasks)), [dumps(task) for task in tasks]], schema=TASKS))


def _values(
    session: "SparkSession",
    frame: "DataFrame",
    steps: Sequence[str],
    ended: StageProgress | None,
    seconds: float | None,
) -> pa.ChunkedArray:
    name = " > ".join(steps).replace(",", "")
    session.addTag(name)
    try:
        if ended is None and seconds is None:
            return frame.toArrow()["value"]
        with _watched(session, len(steps), ended, seconds):
            return frame.toArrow()["value"]
    finally:
        session.removeTag(name)


@contextmanager
def _watched(
    session: "SparkSession", stages: int, ended: StageProgress | None, seconds: float | None
) -> Iterator[None]:
    """Report how far the stages of the operation in this block are; interrupt it if no task ends for `seconds`.

    Raises TasksStalled for the error that follows the interruption. The operation has a tag of its own, since a session
    may be shared by processes.
    """
    tag = f"pststream-{uuid.uuid4().hex}"
    shares, last = [0.0] * stages, [time.monotonic()]
    is_done, stalled = threading.Event(), threading.Event()
    caller = threading.get_ident()

    def see(stages: "Iterable[StageInfo] | None", inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        if threading.get_ident() != caller:
            return  # an operation of another thread
        for number, stage in enumerate(sorted(stages or (), key=lambda one: one.stage_id)[: len(shares)]):
            share = stage.num_completed_tasks / max(stage.num_tasks, 1)
            if share > shares[number]:
                shares[number], last[0] = share, time.monotonic()
                if ended is not None:
                    ended(number, share)

    def wait() -> None:
        assert seconds is not None
        while (left := last[0] + seconds - time.monotonic()) > 0:
            if is_done.wait(left):
                return
        stalled.set()
        session.interruptTag(tag)

    watcher = threading.Thread(target=wait, daemon=True) if seconds is not None else None
    session.addTag(tag)
    handler = cast("ProgressHandler", see)
    session.registerProgressHandler(handler)
    if watcher:
        watcher.start()
    try:
        yield
    except Exception:
        if stalled.is_set():
            raise TasksStalled from None
        raise
    finally:
        is_done.set()
        session.removeProgressHandler(handler)
        session.removeTag(tag)
    if ended is not None:
        for stage, share in enumerate(shares):
            if share < 1:
                ended(stage, 1.0)


def _raise_task_error(error: Exception) -> None:
    """Raise an error of Spark as the error of the task that caused it, if one did."""
    code_version.explain_if_other_code(error)
    raise_storage_error(error)
    text = _error_of_task(str(error))
    kind, _, message = text.partition(": ")
    if kind in RETRYABLE:
        raise RetryableError(*message.split("\n  ", 1)) from error
    if text:
        raise RuntimeError(f"a task on Spark failed: {text}") from error


def _error_of_task(text: str) -> str:
    """Return the last Python error in the text of an error of Spark: its type and message; empty if there is none."""
    _, _, traceback = text.rpartition("Traceback (most recent call last):\n")
    if traceback == text:
        return ""
    for end in ("\n\tat ", "\n\nJVM stacktrace:", "\nSQLSTATE:", " SQLSTATE:"):
        traceback = traceback.partition(end)[0]
    return "\n".join(dropwhile(lambda line: not line.strip() or line.startswith(" "), traceback.splitlines())).strip()


def _each_task(code: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    code_version.check_code_in_task(code)
    for batch in batches:
        for task in batch.column("task"):
            yield pickle.loads(task.as_buffer())
    _freeze_loaded_objects()


def _run_tasks(
    code: str, function: Callable[[Any], Any], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for task in _each_task(code, batches):
        yield _value(function(task))


def _send_rows(
    code: str, send: Callable[[Any], Iterable[SentRows]], slots: tuple[int, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for task in _each_task(code, batches):
        yield from _rows_as_cells(send(task), slots)


def _run_parts(
    code: str, stage: Stage, next_slots: tuple[int, ...] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a stage for the parts of one task; yield the values of its parts, or what they send to the next stage."""
    code_version.check_code_in_task(code)
    received = sorted(_cells(batches), key=itemgetter(0))
    for part, of_part in groupby(received, key=itemgetter(0)):
        value = stage.function(part, ((tag, from_bytes(rows.as_buffer())) for _, tag, rows in of_part))
        if next_slots is None:
            yield _value(value)
        else:
            yield from _rows_as_cells(value, next_slots)
    _freeze_loaded_objects()


def _cells(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, Any]]:
    for batch in batches:
        yield from zip(batch["part"].to_pylist(), batch["tag"].to_pylist(), batch["rows"], strict=True)


def _value(value: Any) -> pa.RecordBatch:
    return pa.record_batch([[pickle.dumps(value)]], schema=VALUES)


def _rows_as_cells(sent: Iterable[SentRows], slots: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    for part, tag, rows in sent:
        for piece in _within_cells(rows):
            yield pa.record_batch([[part], [tag], [slots[part]], _cell(to_bytes(piece))], schema=SENT)


def _cell(data: pa.Buffer) -> pa.Array:
    """Return bytes as an array of one row, without copying them."""
    offsets = pa.py_buffer(np.array([0, data.size], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])


def _within_cells(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces of at most MAX_CELL_BYTES; nothing if there are none."""
    if rows.num_rows > 1 and rows.nbytes > MAX_CELL_BYTES:
        half = rows.num_rows // 2
        yield from _within_cells(rows.slice(0, half))
        yield from _within_cells(rows.slice(half))
    elif rows.num_rows:
        yield rows


def _freeze_loaded_objects() -> None:
    """Exempt the objects that this process has loaded from garbage collection, after 1, 2, 4, 8, … tasks.

    Spark runs a full collection in its Python workers after each task. Modules and kernels are so many objects that the
    collection takes longer than a small task.
    """
    number = next(_TASK_NUMBERS)
    if number & (number - 1) == 0:
        gc.collect()
        gc.freeze()


def to_bytes(rows: pa.RecordBatch) -> pa.Buffer:
    """Return a record batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue()


def from_bytes(data: pa.Buffer) -> pa.RecordBatch:
    """Return the record batch of an Arrow stream that `to_bytes` made."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()
