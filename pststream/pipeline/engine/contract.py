"""Define the interface of an engine: run tasks in parallel, either alone or with one shuffle of their rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

Task = TypeVar("Task")
Value = TypeVar("Value")

SentRows = tuple[int, int, pa.RecordBatch]
"""Rows that a task sends into the shuffle: the part that receives them, a tag for the receiver, the rows."""

ReceivedRows = Iterator[tuple[int, pa.RecordBatch]]
"""Rows that a part receives from the shuffle: (tag, rows) of each record batch that was sent to it, in no order."""


class Engine(Protocol):
    """Runs tasks on this machine or on a cluster. Tasks, functions and returned values travel pickled.

    A task may be run more than once, after a failure or for speed: it must only write files that nothing names yet.
    """

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time."""

    def run_tasks(self, tasks: Sequence[Task], function: Callable[[Task], Value]) -> list[Value]:
        """Return the value of `function(task)` for each task, in no order."""

    def run_shuffled(
        self,
        tasks: Sequence[Task],
        send: Callable[[Task], Iterable[SentRows]],
        parts: int,
        receive: Callable[[int, ReceivedRows], Value],
    ) -> list[Value]:
        """Return the value of `receive(part, rows)` for each of `parts` parts that some task sent rows to, in no order.

        `send` runs for each task and `receive` for each part, both where the engine runs its tasks: in threads of this
        process or in Python workers of Spark.
        """
