"""Choose the engine for each call: threads of this process for the work of up to 8 full tasks, Spark for more."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pststream.engine.contract import Engine, SentRows, Stage, StageProgress, Task, Value
from pststream.engine.local_engine import LocalEngine

MAX_LOCAL_WEIGHT = 8.0
"""Tasks of up to this total weight run in this process: 2,000,000 rows, or 128 MiB of input files."""

MIN_WEIGHT = 1 / 64
"""Every task counts at least this much, since even an empty one has a cost."""


class AutoEngine:
    """Chooses for each call: the local engine for little work, else Spark, which the first such call starts.

    spark   returns the Spark engine; starts it if it does not run yet
    """

    def __init__(self, spark: Callable[[], Engine]) -> None:
        self._local = LocalEngine()
        self._spark = spark

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time in this process."""
        return self._local.parallelism

    def run_tasks(
        self,
        tasks: Sequence[Task],
        function: Callable[[Task], Value],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Value]:
        """Return the value of `function(task)` for each task, in no order."""
        return self._engine_for(tasks).run_tasks(tasks, function, ended, seconds)

    def run_shuffled(
        self,
        tasks: Sequence[Task],
        send: Callable[[Task], Iterable[SentRows]],
        stages: Sequence[Stage],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Any]:
        """Return the values of the last stage, in no order."""
        return self._engine_for(tasks).run_shuffled(tasks, send, stages, ended, seconds)

    def _engine_for(self, tasks: Sequence[Task]) -> Engine:
        weight = sum(max(getattr(task, "weight", 1.0), MIN_WEIGHT) for task in tasks)
        return self._local if weight <= MAX_LOCAL_WEIGHT else self._spark()
