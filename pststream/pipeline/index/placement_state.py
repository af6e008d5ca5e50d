"""Read and write the state of a plan that shares by subscription: counts of its sample, and loads of its units."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream import names
from pststream.array_cache.array_cache import ArrayCache
from pststream.delta_tables import last_transaction, read_table
from pststream.domain.plan import DispatchGrid
from pststream.domain.sample_counts import SampleCounts
from pststream.kernels.planning.nearest_areas import AreaIndex
from pststream.partitioning.by_subscription import NO_AREAS
from pststream.partitioning.dkm.area_index import build_area_index
from pststream.pipeline.engine.task_context import TaskContext
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.tables import TABLES

PLAN_MADE, INDEX_BUILT = -1, 0
"""`batch_id` of what no batch has placed."""

STEPS = PLAN, REBUILD, REQUESTS, THRESHOLDS = "plan", "rebuild", "requests", "thresholds"
"""Steps in their order: the plan was made; its index was built; a batch indexed requests, or thresholds of `knn`."""

RANGE = ("first_column", "first_row", "last_column", "last_row")
"""Columns of a range of raster cells."""

LAST_BATCHES = 64
"""Batches in which the last row is sought first; where none of them has placed any, so many times more."""


@dataclass(frozen=True)
class PlacementState:
    """What was placed before a step of a batch.

    present_to    the greatest key of a subscription that was present when the plan was made
    object_scale  stored objects for each sampled one
    loads         float64[units]  cost of the subscriptions of each unit
    areas         areas of their parts
    """

    present_to: int
    object_scale: float
    loads: np.ndarray
    areas: int


def save_counts(home: Home, version: int, counts: SampleCounts) -> None:
    """Write the counts of the sample of a plan."""
    columns = {"term_id": counts.terms, "cell": counts.cells, "objects": counts.objects}
    rows = pa.table({"plan_version": np.full(len(counts.terms), version), **columns})
    ledger_tables.append(home, names.PLACEMENT_COUNTS, rows)


def read_counts(home: Home, version: int, grid: DispatchGrid) -> SampleCounts:
    """Read the counts of the sample of a plan; grid: its raster."""
    rows = read_table(home.table(names.PLACEMENT_COUNTS), filter=pds.field("plan_version") == version)
    rows = rows.sort_by([("term_id", "ascending"), ("cell", "ascending")])
    # Copies, since read-only arrays are a type of its own for the compiler.
    terms, cells, objects = (rows.column(name).to_numpy().copy() for name in ("term_id", "cell", "objects"))
    scale = read_state(home, version, INDEX_BUILT, REBUILD).object_scale
    return SampleCounts(grid.columns, grid.rows, terms, cells, objects, scale)


@lru_cache(maxsize=1)
def placement_counts(home: str, version: int, grid: DispatchGrid) -> SampleCounts:
    """Return the counts of the sample of a plan, kept in the process; grid: its raster."""
    return read_counts(Home(home), version, grid)


def save_start(home: Home, version: int, present_to: int, object_scale: float, units: int) -> None:
    """Write that a plan was made, and nothing is placed yet."""
    state = PlacementState(present_to, object_scale, np.zeros(units), 0)
    ledger_tables.append(home, names.PLACEMENTS, [_row(version, PLAN_MADE, PLAN, state)])


def read_state(home: Home, version: int, batch_id: int, step: str) -> PlacementState:
    """Read what was placed before a step; what it and later steps have placed in an earlier try does not count.

    Each row has the whole state, so the last one is enough: it is sought in ever more batches from the end.
    """
    reach = LAST_BATCHES
    while True:
        recent = (pds.field("batch_id") <= batch_id) & (pds.field("batch_id") > batch_id - reach)
        rows = read_table(
            home.table(names.PLACEMENTS), filter=(pds.field("plan_version") == version) & recent
        ).to_pylist()
        earlier = [row for row in rows if _moment(row) < (batch_id, STEPS.index(step))]
        if earlier:
            last = max(earlier, key=_moment)
            return PlacementState(last["present_to"], last["object_scale"], np.array(last["loads"]), last["areas"])
        if batch_id - reach < PLAN_MADE:
            raise ValueError(f"nothing was placed under plan {version}: it does not share by subscription")
        reach *= LAST_BATCHES


def read_area_index(context: TaskContext, version: int, areas: int) -> AreaIndex:
    """Return the index over the first areas of a plan, mapped from the node's cache; areas: their number."""
    if not areas:
        return build_area_index(NO_AREAS)
    home = Home(context.home)
    files = [file.path for file in list_data_files(home, names.PLACEMENT_AREAS) if _is_of(file, version)]
    cache = _area_cache(context.cache_dir, context.cache_bytes)

    def build() -> dict[str, np.ndarray]:
        first = (pds.field("plan_version") == version) & (pds.field("number") < areas)
        rows = read_table(home.table(names.PLACEMENT_AREAS), filter=first).sort_by("number")
        return build_area_index(np.column_stack([rows.column(name).to_numpy() for name in RANGE]))._asdict()

    return AreaIndex(**cache.arrays((context.home, f"plan {version}, {areas} areas", *files), build))


@lru_cache(maxsize=4)
def _area_cache(folder: str, max_bytes: int) -> ArrayCache:
    return ArrayCache(folder, max_bytes, "areas")


def _is_of(file: DataFile, version: int) -> bool:
    return file.may_contain("plan_version", version, version)


def state_rows(version: int, batch_id: int, step: str, state: PlacementState) -> pa.RecordBatch:
    """Return the row of `placements` for the state after a step of a batch."""
    schema = TABLES[names.PLACEMENTS].schema
    return pa.RecordBatch.from_pylist([_row(version, batch_id, step, state)], schema=schema)


def area_rows(version: int, first: int, areas: np.ndarray) -> pa.RecordBatch:
    """Return the rows of `placement_areas` for areas (int32[a, 4]) with numbers from `first` on."""
    count = len(areas)
    columns = {name: pa.array(areas[:, side]) for side, name in enumerate(RANGE)}
    numbers = {"plan_version": np.full(count, version), "number": np.arange(first, first + count)}
    return pa.RecordBatch.from_pydict({**numbers, **columns}, schema=TABLES[names.PLACEMENT_AREAS].schema)


def _row(version: int, batch_id: int, step: str, state: PlacementState) -> dict[str, Any]:
    return {"plan_version": version, "batch_id": batch_id, "step": step, **asdict(state)}


def _moment(row: dict[str, Any]) -> tuple[int, int]:
    return row["batch_id"], STEPS.index(row["step"])


def write_placed(home: Home, name: str, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """Write rows of `placements` or `placement_areas` as a data file, not yet committed."""
    writer = FileWriter(home.table(name), TABLES[name].schema)
    for batch in rows:
        writer.write(batch)
    file = writer.close()
    return [file] if file else []


def commit_placed(home: Home, written: Mapping[str, list[DataFile]], version: int, step: str, batch_id: int) -> None:
    """Commit what a step of a batch has placed under a plan, once; written: files by table.

    The areas come first: their number in `placements` says which of them count.
    """
    for name in (names.PLACEMENT_AREAS, names.PLACEMENTS):
        application, transaction = f"{step}-{version}", batch_id
        if step == REBUILD:
            # A killed planner may have built an index of this version; so each try has a transaction number of its own.
            application, transaction = step, last_transaction(home.table(name), step) + 1
        commit_files(home, name, written[name], application=application, transaction=transaction)
        if name == names.PLACEMENT_AREAS:
            crash_point("areas_placed")
