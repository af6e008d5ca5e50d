"""Report each task of Spark that has ended to the driver while other tasks run, through one accumulator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, cast

from pststream.engine.contract import TaskEnded

if TYPE_CHECKING:
    from pyspark import Accumulator, AccumulatorParam, SparkContext

End = tuple[int, int, int]
"""A task that has ended: the number of its run, its stage, its number in the stage."""

_RUN_NUMBERS = count(1)
_RUNS: dict[int, TaskEnded] = {}
"""The functions of the runs of this process that are under way, by their numbers."""


class _Ends:
    """Defines the values of the accumulator, as a pyspark.AccumulatorParam: lists of ends.

    A task collects the ends of its rows, which Spark sends when the task has ended. The driver keeps none: it passes
    each end to the function of its run.
    """

    def __init__(self, on_driver: bool = False) -> None:
        self._on_driver = on_driver

    def __reduce__(self) -> tuple[type["_Ends"], tuple[()]]:
        return _Ends, ()

    def zero(self, value: list[End]) -> list[End]:
        """Return the value with which a task begins."""
        return []

    def addInPlace(self, ends: list[End], more: list[End]) -> list[End]:
        """Return all ends; on the driver, report the new ones and return none."""
        if not self._on_driver:
            return ends + more
        for run, stage, number in more:
            if (ended := _RUNS.get(run)) is not None:
                ended(stage, number)
        return []


@lru_cache(maxsize=1)
def _accumulator(context: "SparkContext") -> "Accumulator[list[End]]":
    """Return the accumulator of a context: one for all runs, as PySpark never forgets an accumulator."""
    return context.accumulator([], cast("AccumulatorParam[list[End]]", _Ends(on_driver=True)))


@contextmanager
def reported_ends(context: "SparkContext", ended: TaskEnded | None) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that tasks call with their stage and number when they end; `ended` gets these calls."""
    if ended is None:
        yield _report_nothing
        return
    run = next(_RUN_NUMBERS)
    _RUNS[run] = ended
    try:
        yield partial(_report, _accumulator(context), run)
    finally:
        del _RUNS[run]


def _report(accumulator: "Accumulator[list[End]]", run: int, stage: int, number: int) -> None:
    accumulator.add([(run, stage, number)])


def _report_nothing(stage: int, number: int) -> None:
    """Report nothing."""
