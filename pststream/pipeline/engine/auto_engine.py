"""Choose the engine for each call: threads of this process for up to 8 tasks, Spark for more."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pststream.pipeline.engine.contract import Engine, SentRows, Stage, Task, Value
from pststream.pipeline.engine.local_engine import LocalEngine

MAX_LOCAL_TASKS = 8
"""Up to this many tasks, of `state.slices.SLICE_ROWS` rows (250,000) or of one input file each, run in this process."""


class AutoEngine:
    """Chooses for each call: the local engine for few tasks, else Spark, which the first such call starts.

    spark   returns the Spark engine; starts it if it does not run yet
    """

    def __init__(self, spark: Callable[[], Engine]) -> None:
        self._local = LocalEngine()
        self._spark = spark

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time in this process."""
        return self._local.parallelism

    def run_tasks(self, tasks: Sequence[Task], function: Callable[[Task], Value]) -> list[Value]:
        """Return the value of `function(task)` for each task, in no order."""
        return self._engine_for(tasks).run_tasks(tasks, function)

    def run_shuffled(
        self, tasks: Sequence[Task], send: Callable[[Task], Iterable[SentRows]], stages: Sequence[Stage]
    ) -> list[Any]:
        """Return the values of the last stage, in no order."""
        return self._engine_for(tasks).run_shuffled(tasks, send, stages)

    def _engine_for(self, tasks: Sequence[Task]) -> Engine:
        return self._local if len(tasks) <= MAX_LOCAL_TASKS else self._spark()
