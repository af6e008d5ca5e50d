"""Define the protocol of planners, read their options, and number the raster cells of a plan by its leaves."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from pststream.base.errors import UsageError
from pststream.planning.load_model import CostModel
from pststream.planning.raster import COLUMNS, ROWS, fit_raster
from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import WorkloadSample

Options = Mapping[str, object]

GREATEST = 2**31 - 1
"""Greatest value of an option that is a whole number: kernels and libraries number things by 32 bits."""

GREATEST_SIDE = 4096
"""Greatest number of columns and of rows of a raster: counts of its cells then take a gigabyte."""


class Planner(Protocol):
    """A pure function from a sample to a plan.

    The plan depends on the values of the arguments alone: not on the order of the sample's rows, not on earlier calls,
    not on a clock. The sample is not changed. The plan is complete (`plans.plan_rows.validate`) for every sample, even
    an empty one; a worker may have no unit. `options` that the planner does not know are
    rejected with UsageError; the `options` of the plan list all that were in force, defaults included.
    """

    def __call__(self, sample: WorkloadSample, workers: int, cost: CostModel, options: Options) -> PartitionPlan:
        """Return a plan of `workers` workers for the workload that the sample shows."""
        ...


def read_integer_options(
    planner: str, options: Options, defaults: Mapping[str, int], others: Collection[str] = ()
) -> dict[str, int]:
    """Return `defaults` updated with `options`: from 1 to GREATEST, `columns` and `rows` to GREATEST_SIDE.

    others  options of the planner that have other values, and are read elsewhere

    Raises UsageError for an option that is in neither, and for any other value.
    """
    for name, value in options.items():
        if name in others:
            continue
        if name not in defaults:
            known = ", ".join([*defaults, *others]) or "none"
            raise UsageError(f"planner {planner} has no option {name!r}", f"its options: {known}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"option {name} of planner {planner}: {value!r} is not a whole number of at least 1")
        greatest = GREATEST_SIDE if name in ("columns", "rows") else GREATEST
        if value > greatest:
            raise UsageError(f"option {name} of planner {planner}: {value} is more than {greatest}")
    return {name: int(str(options.get(name, value))) for name, value in defaults.items()}


def read_choice(planner: str, options: Options, name: str, choices: tuple[str, ...]) -> str:
    """Return the option `name`, one of `choices`; the first one if it is not given. Raises UsageError otherwise."""
    value = options.get(name, choices[0])
    if value not in choices:
        raise UsageError(f"option {name} of planner {planner}: {value!r} is unknown", "one of: " + ", ".join(choices))
    return str(value)


def read_real_options(planner: str, options: Options, defaults: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Return the options that are named in `defaults`, each a finite number.

    defaults  default and least value of each option
    Raises UsageError for any other value. Options without a default are checked by `read_integer_options`.
    """
    chosen = {}
    for name, (default, least) in defaults.items():
        value = options.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
            raise UsageError(f"option {name} of planner {planner}: {value!r} is not a number of at least {least:g}")
        chosen[name] = float(value)
    return chosen


RASTER_OPTIONS = {"columns": COLUMNS, "rows": ROWS}
"""Options of all planners, with the default of each."""


def make_raster(sample: WorkloadSample, options: Mapping[str, int]) -> DispatchGrid:
    """Return the raster over most of the objects of a sample (`fit_raster`); options: its columns and rows."""
    return fit_raster(sample.lon, sample.lat, sample.boxes, options["columns"], options["rows"])


def options_and_raster(
    planner: str, sample: WorkloadSample, options: Options, defaults: Mapping[str, int] = RASTER_OPTIONS
) -> tuple[dict[str, Any], DispatchGrid]:
    """Return what `read_integer_options` and `make_raster` return."""
    chosen = read_integer_options(planner, options, defaults)
    return chosen, make_raster(sample, chosen)


def number_cells(grid: DispatchGrid, leaves: Iterable[tuple[int, int, int, int]]) -> np.ndarray:
    """Return the leaf of each raster cell: int32[cells], row by row.

    leaves  first column, first row, last column, last row of each; together they cover the raster
    """
    cell_leaf = np.zeros((grid.rows, grid.columns), np.int32)
    for leaf, (x0, y0, x1, y1) in enumerate(leaves):
        cell_leaf[y0 : y1 + 1, x0 : x1 + 1] = leaf
    return cell_leaf.ravel()
