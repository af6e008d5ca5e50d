"""Run tasks in threads of this process, without Spark or a JVM; shuffled rows stay in memory.

Kernels and Arrow release the interpreter's lock, so the threads use all cores in most of the running time. Large work
needs Spark, which writes shuffled rows to disk.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Lock, Thread
from typing import Any, Generic

import pyarrow as pa

from pststream.engine.contract import ReceivedRows, SentRows, Stage, StageProgress, Task, TasksStalled, Value, ran_at

ShuffledRows = dict[int, list[tuple[int, pa.RecordBatch]]]
"""The rows that each part receives, with their tags."""


class LocalEngine:
    """Runs tasks in threads, one for each core."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time."""
        return len(os.sched_getaffinity(0))

    def run_tasks(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Value],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Value]:
        """Return the value of `function(task)` for each task, in the order of the tasks.

        If a task fails, no further task starts, and its error is raised once the running ones have ended. Raises
        TasksStalled if no task ends for `seconds`: no further task starts, and the running ones go on in their threads.
        """
        return self._run(_Run(tasks, function, ended and partial(ended, 0)), len(tasks), seconds)

    def run_shuffled(
        self,
        tasks: Sequence[Task],
        send: Callable[[Task], Iterable[SentRows]],
        stages: Sequence[Stage],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Any]:
        """Return the values of the last stage by part; rows arrive in the order of the tasks or parts that sent them.

        A stage begins when all of the stage before has ended. Raises TasksStalled as `run_tasks` does.
        """
        shuffled = _shuffle(self.run_tasks(tasks, lambda task: list(send(task)), ended, seconds))
        for number, stage in enumerate(stages[:-1], 1):
            run = partial(_receive_and_send, stage, shuffled)
            shuffled = _shuffle(self._run_parts(number, run, shuffled, ended, seconds))
        return self._run_parts(len(stages), partial(_receive, stages[-1], shuffled), shuffled, ended, seconds)

    def _run_parts(
        self,
        stage: int,
        function: Callable[[int], Value],
        shuffled: ShuffledRows,
        ended: StageProgress | None,
        seconds: float | None,
    ) -> list[Value]:
        """Return the value of each part of a stage that has rows, in the order of the parts."""
        parts = sorted(shuffled)
        return self._run(_Run(parts, function, ended and partial(ended, stage)), len(parts), seconds)

    def _run(self, run: "_Run[Task, Value]", tasks: int, seconds: float | None = None) -> list[Value]:
        """Run `tasks` tasks in threads, and return their values in order."""
        if tasks:
            ran_at("threads")
        # Daemon threads: a process that abandons a step does not wait for them. What they write no commit names.
        threads = [Thread(target=run.work, daemon=True) for _ in range(min(self.parallelism, tasks))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                run.wait(thread, seconds)
        except BaseException:
            run.stop()
            raise
        return run.values()


def _shuffle(sent: list[list[SentRows]]) -> ShuffledRows:
    """Return the sent rows by part, and empty `sent`."""
    shuffled: ShuffledRows = {}
    sent.reverse()
    while sent:
        for part, tag, rows in sent.pop():
            if rows.num_rows:
                shuffled.setdefault(part, []).append((tag, rows))
    return shuffled


def _receive(stage: Stage, shuffled: ShuffledRows, part: int) -> Any:
    """Run a stage on a part. The stage removes the rows as it reads them, so that their memory is freed."""
    return stage.function(part, _drain(shuffled.pop(part)))


def _receive_and_send(stage: Stage, shuffled: ShuffledRows, part: int) -> list[SentRows]:
    return list(_receive(stage, shuffled, part))


def _drain(rows: list[tuple[int, pa.RecordBatch]]) -> ReceivedRows:
    rows.reverse()
    while rows:
        yield rows.pop()


class _Run(Generic[Task, Value]):
    """The state of one `run_tasks`, shared by its threads."""

    def __init__(
        self, tasks: Sequence[Task], function: Callable[[Task], Value], ended: Callable[[float], None] | None
    ) -> None:
        self._function, self._ended, self._tasks = function, ended, len(tasks)
        self._waiting: Iterator[tuple[int, Task]] = enumerate(tasks)
        self._values: dict[int, Value] = {}
        self._error: BaseException | None = None
        self._lock = Lock()
        self._ended_at = time.monotonic()

    def work(self) -> None:
        """Run one task after the other until none is left or one has failed."""
        while (task := self._next()) is not None:
            number, argument = task
            try:
                self._values[number] = self._function(argument)
                self._ended_at = time.monotonic()
                if self._ended is not None:
                    with self._lock:
                        self._ended(len(self._values) / self._tasks)
            except BaseException as error:
                self._error = self._error or error
                self.stop()

    def wait(self, thread: Thread, seconds: float | None) -> None:
        """Wait until a thread ends. Raises TasksStalled if it runs and no task has ended for `seconds`."""
        while seconds is not None and thread.is_alive():
            left = self._ended_at + seconds - time.monotonic()
            if left <= 0:
                raise TasksStalled(seconds)
            thread.join(left)
        thread.join()

    def stop(self) -> None:
        """Start no further task."""
        with self._lock:
            self._waiting = iter(())

    def values(self) -> list[Value]:
        """Return the values in the order of the tasks; raises the first error of a task."""
        if self._error is not None:
            raise self._error
        return [self._values[number] for number in sorted(self._values)]

    def _next(self) -> tuple[int, Task] | None:
        with self._lock:
            return next(self._waiting, None)
