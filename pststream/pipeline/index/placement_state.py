"""Read and write what a plan that shares by subscription places by: the counts of its sample, and the loads so far."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.domain.plan import DispatchGrid
from pststream.domain.sample_counts import SampleCounts
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.tables import TABLES

PLAN_MADE, INDEX_BUILT = -1, 0
"""`batch_id` of what no batch has placed."""

PLAN, REBUILD, REQUESTS, THRESHOLDS = "plan", "rebuild", "requests", "thresholds"
"""Steps: the plan was made; its index was built; a batch indexed its requests, or the thresholds of `knn`."""


@dataclass(frozen=True)
class PlacementState:
    """What was placed before a batch.

    present_to  the greatest key of a subscription that was present when the plan was made
    loads       float64[units]  cost of the subscriptions of each unit
    areas       int32[a, 4]     raster ranges of their parts
    """

    present_to: int
    loads: np.ndarray
    areas: np.ndarray


def save_counts(home: Home, version: int, counts: SampleCounts) -> None:
    """Write the counts of the sample of a plan."""
    columns = {"term_id": counts.terms, "cell": counts.cells, "objects": counts.objects}
    rows = pa.table({"plan_version": np.full(len(counts.terms), version), **columns})
    ledger_tables.append(home, names.PLACEMENT_COUNTS, rows)


def read_counts(home: Home, version: int, grid: DispatchGrid) -> SampleCounts:
    """Read the counts of the sample of a plan; grid: its raster."""
    rows = ledger_tables.read(home, names.PLACEMENT_COUNTS, filters=[("plan_version", "=", version)])
    rows = rows.sort_by([("term_id", "ascending"), ("cell", "ascending")])
    # Copies, since read-only arrays are a type of its own for the compiler.
    terms, cells, objects = (rows.column(name).to_numpy().copy() for name in ("term_id", "cell", "objects"))
    made = [("plan_version", "=", version), ("batch_id", "=", PLAN_MADE)]
    scale = ledger_tables.read(home, names.PLACEMENTS, ["object_scale"], made).column(0)[0].as_py()
    return SampleCounts(grid.columns, grid.rows, terms, cells, objects, scale)


@lru_cache(maxsize=1)
def placement_counts(home: str, version: int, grid: DispatchGrid) -> SampleCounts:
    """Return the counts of the sample of a plan, kept in the process; grid: its raster."""
    return read_counts(Home(home), version, grid)


def save_start(home: Home, version: int, present_to: int, object_scale: float, units: int) -> None:
    """Write that a plan was made, and nothing is placed yet."""
    row = {
        "plan_version": version,
        "batch_id": PLAN_MADE,
        "step": PLAN,
        "present_to": present_to,
        "loads": [0.0] * units,
    }
    ledger_tables.append(home, names.PLACEMENTS, [{**row, "object_scale": object_scale, "areas": []}])


def read_state(home: Home, version: int, batch_id: int) -> PlacementState:
    """Read what was placed before a batch; what the batch itself has placed in an earlier try does not count."""
    filters = [("plan_version", "=", version), ("batch_id", "<", batch_id)]
    rows = ledger_tables.read(home, names.PLACEMENTS, filters=filters).sort_by("batch_id").combine_chunks()
    loads = rows.column("loads").combine_chunks().flatten().to_numpy().reshape(rows.num_rows, -1)
    areas = rows.column("areas").combine_chunks().flatten().to_numpy()
    return PlacementState(int(rows.column("present_to")[0].as_py()), loads.sum(axis=0), areas.reshape(-1, 4))


def placement_row(version: int, batch_id: int, step: str, loads: np.ndarray, areas: np.ndarray) -> pa.RecordBatch:
    """Return the row of `placements` for what a step of a batch adds."""
    row = {"plan_version": version, "batch_id": batch_id, "step": step, "present_to": None, "object_scale": None}
    row |= {"loads": loads, "areas": areas.ravel()}
    return pa.RecordBatch.from_pylist([row], schema=TABLES[names.PLACEMENTS].schema)


def write_placement(home: Home, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """Write rows of `placements` as a data file, not yet committed."""
    writer = FileWriter(home.table(names.PLACEMENTS), TABLES[names.PLACEMENTS].schema)
    for batch in rows:
        writer.write(batch)
    file = writer.close()
    return [file] if file else []


def commit_placed(home: Home, files: list[DataFile], version: int, step: str, batch_id: int) -> None:
    """Commit what a step of a batch has placed under a plan, once."""
    application, transaction = f"{step}-{version}", batch_id
    if step == REBUILD:
        # A killed planner may have built an index of this version; so each try has a transaction number of its own.
        application, transaction = step, ledger_tables.last_transaction(home, names.PLACEMENTS, step) + 1
    commit_files(home, names.PLACEMENTS, files, application=application, transaction=transaction)
