"""Run tasks on Spark by DataFrames of Spark Connect, and shuffle their rows through the JVM as Arrow bytes.

A task is a row of a local DataFrame with a partition of its own, so that each executor receives its own tasks alone;
`mapInArrow` runs it. Sent rows travel as Arrow streams in a binary column, one record batch in each row, which
`repartitionById` brings to their parts: the JVM moves bytes and never opens them. Converting rows to Arrow and back
costs several times the matching itself. The tasks read and write the tables themselves (state/slices.py,
state/data_files.py); the driver receives one small value for each task.
"""

import gc
import pickle
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from hashlib import sha256
from itertools import count, dropwhile, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pststream.base.errors import RetryableError
from pststream.engine import code_version
from pststream.engine.contract import SentRows, Stage, StageProgress, Task, TaskDied, TasksStalled, Value, ran_at
from pststream.engine.spark_session import EngineSession
from pststream.state.home import Home
from pststream.state.scratch import scratch_folder
from pststream.storage.parquet_files import raise_storage_error
from pststream.storage.registry import files_at

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

MAX_CLOSURE_BYTES = 1 << 16
"""Bytes of functions that travel with each task; more are read from a file, once in each process."""

Functions = bytes | str
"""The functions of a call pickled together, since they share data; or the address of their file, whose name is its
SHA-256, so that tasks run no functions that another has put there.
"""

MAX_CELL_BYTES = 1 << 30
"""Bytes of rows in one cell of a DataFrame: Java's arrays end at 2 GiB."""

RETRYABLE = ("pststream.base.errors.RetryableError", "pststream.base.errors.PassingError")
"""Errors of tasks that the driver raises as RetryableError, as Spark names them."""

DIED = "Python worker exited unexpectedly (crashed)"
"""What Spark says of a task whose process has ended."""

TASKS = pa.schema([("number", pa.int32()), ("task", pa.binary())])
VALUES = pa.schema([("value", pa.binary())])
SENT = pa.schema([("part", pa.int32()), ("tag", pa.int64()), ("slot", pa.int32()), ("rows", pa.binary())])

_TASK_NUMBERS = count(1)
"""Numbers of the tasks of this process."""


class SparkEngine:
    """Runs tasks in the Python workers of a Spark Connect server.

    home: keeps functions with much data while their tasks run, as all nodes see it; None: they travel with each task
    """

    def __init__(self, session: EngineSession, home: Home | None = None) -> None:
        self._session, self._home = session, home

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

        def make(session: "SparkSession", functions: Functions) -> "DataFrame":
            run = _named(partial(_run_tasks, code, functions), function)
            return _frame_of(session, tasks).mapInArrow(run, _columns(VALUES))

        return self._collect(make, [function], ended, seconds)

    def run_shuffled(
        self,
        tasks: Sequence[Task],
        send: Callable[[Task], Iterable[SentRows]],
        stages: Sequence[Stage],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Any]:
        """Return the values of the last stage, in no order; the whole chain is one job of Spark.

        On few cores one task runs several parts, one after the other, since a task costs more than a small part.
        Raises TasksStalled as `run_tasks` does.
        """
        tasks, code = list(tasks), self._session.expected_code()
        if not tasks:
            return []
        most = SLOTS_PER_CORE * self.parallelism if len(tasks) <= MAX_GROUPED_TASKS else sys.maxsize
        slots = [min(stage.parts, most) for stage in stages]

        def make(session: "SparkSession", functions: Functions) -> "DataFrame":
            first = _named(partial(_send_rows, code, functions, slots[0]), send)
            frame = _frame_of(session, tasks).mapInArrow(first, _columns(SENT))
            for number, stage in enumerate(stages, 1):
                after = slots[number] if number < len(stages) else 0
                frame = frame.repartitionById(slots[number - 1], "slot").mapInArrow(
                    _named(partial(_run_parts, code, functions, number, after), stage.function),
                    _columns(SENT if after else VALUES),
                )
            return frame

        return self._collect(make, [send, *(stage.function for stage in stages)], ended, seconds)

    def _collect(
        self,
        make: Callable[["SparkSession", Functions], "DataFrame"],
        functions: Sequence[Callable[..., Any]],
        ended: StageProgress | None,
        seconds: float | None = None,
    ) -> list[Any]:
        """Return the values of a frame; `make` makes it in a session, again in a new one if the server closed it.

        functions: those of its stages, by which Spark's pages name the operation
        """
        steps = [_name(function) for function in functions]
        try:
            with self.sent(functions) as sent:
                values = self._session.run(lambda session: _values(session, make(session, sent), steps, ended, seconds))
        except TasksStalled:
            raise
        except Exception as error:
            _raise_task_error(error)
            raise
        ran_at(self._session.place)
        return [pickle.loads(one.as_buffer()) for one in values]

    @contextmanager
    def sent(self, functions: Sequence[Callable[..., Any]]) -> Iterator[Functions]:
        """Yield what tasks get of functions: their bytes, or, of many bytes, the file that has them during the block.

        So what a task gets does not grow with the data of the functions, such as the files of an index.
        """
        from pyspark.cloudpickle import dumps

        data = dumps(tuple(functions))
        if self._home is None or len(data) <= MAX_CLOSURE_BYTES:
            yield data
            return
        with scratch_folder(self._home) as folder:
            files_at(folder).write(digest := sha256(data).hexdigest(), data, durable=False)
            yield f"{folder}/{digest}"


@lru_cache(maxsize=2)
def _load(functions: Functions) -> tuple[Callable[..., Any], ...]:
    """Return functions that `SparkEngine.sent` has sent; a process reads each file once."""
    if isinstance(functions, str):
        folder, _, digest = functions.rpartition("/")
        functions = files_at(folder).read(digest)
        if sha256(functions).hexdigest() != digest:
            raise RetryableError(f"{folder}/{digest}: another program has changed this file", "run this again")
    return cast("tuple[Callable[..., Any], ...]", pickle.loads(functions))


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
    """Return tasks as rows; the session's settings give each row a partition of its own.

    The schema is named again, as the client would send all tasks to the server to ask for it.
    """
    from pyspark.cloudpickle import dumps

    rows = pa.table([range(len(tasks)), [dumps(task) for task in tasks]], schema=TASKS)
    return session.createDataFrame(rows).to(_columns(TASKS))


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
            raise TasksStalled(seconds or 0) from None
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
    if DIED in str(error):
        raise TaskDied from error
    text = _error_of_task(str(error))
    kind, _, message = text.partition(": ")
    if kind == "MemoryError":
        raise MemoryError(message) from error
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


def _run_tasks(code: str, functions: Functions, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for task in _each_task(code, batches):
        yield _value(_load(functions)[0](task))


def _send_rows(
    code: str, functions: Functions, slots: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for task in _each_task(code, batches):
        yield from _rows_as_cells(_load(functions)[0](task), slots)


def _run_parts(
    code: str, functions: Functions, number: int, next_slots: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a stage for the parts of one task; yield the values of its parts, or what they send to the next stage.

    next_slots: the number of tasks of the next stage; 0: this is the last one
    """
    code_version.check_code_in_task(code)
    function = _load(functions)[number]
    received = sorted(_cells(batches), key=itemgetter(0))
    for part, of_part in groupby(received, key=itemgetter(0)):
        value = function(part, ((tag, from_bytes(rows.as_buffer())) for _, tag, rows in of_part))
        if next_slots:
            yield from _rows_as_cells(value, next_slots)
        else:
            yield _value(value)
    _freeze_loaded_objects()


def _cells(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, Any]]:
    for batch in batches:
        yield from zip(batch["part"].to_pylist(), batch["tag"].to_pylist(), batch["rows"], strict=True)


def _value(value: Any) -> pa.RecordBatch:
    return pa.record_batch([[pickle.dumps(value)]], schema=VALUES)


def _rows_as_cells(sent: Iterable[SentRows], slots: int) -> Iterator[pa.RecordBatch]:
    for part, tag, rows in sent:
        for piece in _within_cells(rows):
            yield pa.record_batch([[part], [tag], [part % slots], _cell(to_bytes(piece))], schema=SENT)


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
