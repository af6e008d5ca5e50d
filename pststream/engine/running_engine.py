"""Return the engine that the setting `engine` names: auto, local or spark.

`local` runs tasks in threads of this process, `spark` runs them on Spark, and `auto` runs few tasks in this process and
many on Spark, or all in this process if pyspark is not installed; on a cluster `auto` means Spark. A further engine is
a class that implements `contract.Engine` and an entry of `ENGINES`.
"""

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from pststream.engine.contract import Engine, SentRows, Stage, StageProgress, Task, Value
from pststream.engine.local_engine import LocalEngine
from pststream.engine.spark_engine import SparkEngine
from pststream.engine.spark_session import get_engine_session, is_one_machine
from pststream.settings import Settings
from pststream.state.home import Home

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
    ) -> list[Any]:
        """Return the values of the last stage, in no order."""
        return self._engine_for(tasks).run_shuffled(tasks, send, stages, ended)

    def _engine_for(self, tasks: Sequence[Task]) -> Engine:
        weight = sum(max(getattr(task, "weight", 1.0), MIN_WEIGHT) for task in tasks)
        return self._local if weight <= MAX_LOCAL_WEIGHT else self._spark()


def _auto(settings: Settings, home: Home | None) -> Engine:
    if not is_one_machine(settings):
        return _spark(settings, home)
    return AutoEngine(lambda: _spark(settings, home)) if find_spec("pyspark") else LocalEngine()


def _spark(settings: Settings, home: Home | None) -> Engine:
    return SparkEngine(get_engine_session(settings), home)


ENGINES: dict[str, Callable[[Settings, Home | None], Engine]] = {
    "auto": _auto,
    "spark": _spark,
    "local": lambda settings, home: LocalEngine(),
}


def get_engine(settings: Settings, home: Home | None = None) -> Engine:
    """Return the engine that the settings name; `spark` starts Spark if it does not run yet.

    home: the home that the tasks are about, where functions with much data wait for them
    """
    return ENGINES[settings.engine](settings, home)


def runs_elsewhere(settings: Settings) -> bool:
    """Whether tasks may run on other machines, which do not see the disk of this one."""
    return settings.engine != "local" and not is_one_machine(settings)
