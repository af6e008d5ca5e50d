"""Define the interface of an engine: run tasks in parallel, alone or as a chain of stages with shuffles between."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from pststream.base.errors import RetryableError

Task = TypeVar("Task")
Value = TypeVar("Value")

SentRows = tuple[int, int, pa.RecordBatch]
"""Rows that a task sends into the shuffle: the part that receives them, a tag for the receiver, the rows."""

ReceivedRows = Iterator[tuple[int, pa.RecordBatch]]
"""Rows that a part receives from the shuffle: (tag, rows) of each record batch that was sent to it, in no order."""

StageProgress = Callable[[int, float], None]
"""Receives how far a stage is: its number, and the share of its tasks that have ended, which rises to 1. Stage 0 are
the tasks themselves; stage 1 follows the first shuffle.
"""


_PLACES: ContextVar[set[str]] = ContextVar("places")


def collect_places() -> set[str]:
    """Return a set to which engines add, from now on in this thread, where they run tasks.

    A place is `threads`, or `Spark` and the host of its server, or its master if the server is on this machine.
    """
    places = set[str]()
    _PLACES.set(places)
    return places


def ran_at(place: str) -> None:
    """Add a place to the set of `collect_places` of this thread, if it has one."""
    _PLACES.get(set()).add(place)


class TasksStalled(RetryableError):
    """No task of a call has ended for longer than the caller waits; the running tasks may go on, without effect."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no task has ended for {seconds:,.0f} s", "run this again")


class TaskDied(RetryableError):
    """The process of a task has ended, as of a bug in native code or for want of memory."""

    def __init__(self) -> None:
        super().__init__("the process of a task has died", "run this again: rows with which tasks die are set aside")


@dataclass(frozen=True)
class Stage:
    """A stage after a shuffle: `function(part, received)` runs for each part that has received rows.

    parts     number of parts; they are numbered from 0
    function  of the last stage of a chain: returns the value of the part. Of an earlier stage: returns or yields rows
              for the parts of the next stage (SentRows).
    """

    parts: int
    function: Callable[[int, ReceivedRows], Any]


class Engine(Protocol):
    """Runs tasks on this machine or on a cluster. Tasks, functions and returned values travel pickled.

    A task may have an attribute `weight`, its work as a share of a full task: 250,000 rows, or 16 MiB of an input file.
    Without it the weight is 1. Only the choice of an engine depends on weights.

    A task may be run more than once, after a failure or for speed: it must only write files that nothing names yet.

    `ended` is called in this process, while tasks run, by one thread at a time. It must not raise.
    """

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time."""

    def run_tasks(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Value],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Value]:
        """Return the value of `function(task)` for each task, in no order.

        Raises TasksStalled if no task ends for `seconds`; None: waits without end.
        """

    def run_shuffled(
        self,
        tasks: Sequence[Task],
        send: Callable[[Task], Iterable[SentRows]],
        stages: Sequence[Stage],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Any]:
        """Run `send` for each task, then each stage for its parts; return the values of the last stage, in no order.

        stages: at least one. A part without rows is not run; a record batch without rows is not sent.
        Raises TasksStalled if no task or part ends for `seconds`; None: waits without end.

        All functions run where the engine runs its tasks: in threads of this process or in Python workers of Spark.
        Rows go from stage to stage there, and only the values of the last stage come to the caller.
        """
