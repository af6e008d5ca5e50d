"""Choose some of the workloads of a benchmark, and another source of its objects."""

from typing import NamedTuple

from benchmarks.support.measured_homes import ObjectSource


class Choice(NamedTuple):
    """Names of workloads, all if there are none, and where objects are drawn from; None: those of the benchmark."""

    workloads: tuple[str, ...] = ()
    objects: ObjectSource | None = None


DEFAULTS = Choice()
