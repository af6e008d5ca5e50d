"""Append the CPU seconds of each worker and the counts of each unit in one batch to the table `unit_loads`.

Units of the plan of `topk` have no worker: they are tasks of their own, so their rows have CPU seconds.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.pipeline.answers.fold_bucket import UnitReport
from pststream.pipeline.batch.match_task import WorkerReport
from pststream.pipeline.batch.worker_search import UnitCounts
from pststream.state import ledger_tables
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file


def save_unit_loads(
    home: Home, batch: dict[str, Any], reports: list[WorkerReport], of_topk: tuple[int | None, list[UnitReport]]
) -> None:
    """Write the rows of a batch, unless an earlier try of it has written them.

    of_topk  version of `topk_plans` and reports of its units
    """
    version, units = of_topk
    tables = [_rows_of_worker(batch, report) for report in reports]
    if version is not None and units:
        tables.append(_rows_of_topk(batch["batch_id"], version, units))
    if tables and not _are_written(home, batch["batch_id"]):
        ledger_tables.append(home, names.UNIT_LOADS, pa.concat_tables(tables))


def _are_written(home: Home, batch_id: int) -> bool:
    of_batch = KeyRange("batch_id", batch_id - 1, batch_id)
    files = of_batch.files(list_data_files(home, names.UNIT_LOADS))
    slices = [whole_file(path) for path, _ in addresses_and_rows(home, names.UNIT_LOADS, files)]
    return any(rows.num_rows for rows in read_slices(slices, ["batch_id"], of_batch))


def _rows_of_worker(batch: dict[str, Any], report: WorkerReport) -> pa.Table:
    """Return a row for the whole worker, and one for each unit of each plan that had objects."""
    counts = report.counts
    whole = {
        "plan_version": batch["plan_version"],
        "unit": names.WHOLE_WORKER,
        "objects": counts.objects,
        "subscriptions": report.subscriptions,
        "candidates": sum(int(of_plan.candidates.sum()) for of_plan in counts.units),
        "matches": counts.matches,
        "cpu_seconds": counts.cpu_seconds + report.index_seconds,
    }
    rows = pa.concat_tables([pa.Table.from_pylist([whole]), *map(_rows_of_units, counts.units)])
    for name, value in (("batch_id", batch["batch_id"]), ("worker", report.worker)):
        rows = rows.append_column(name, pa.array(np.full(rows.num_rows, value)))
    return rows


def _rows_of_topk(batch_id: int, version: int, units: list[UnitReport]) -> pa.Table:
    """Return a row for each unit of the plan of `topk`, in the order of the columns of the others."""
    return pa.Table.from_pylist(
        [
            {
                "plan_version": version, "unit": unit.unit, "objects": unit.objects,
                "subscriptions": unit.subscriptions, "candidates": unit.candidates, "matches": 0,
                "cpu_seconds": unit.search_seconds, "batch_id": batch_id, "worker": names.UNIT_OF_TOPK,
            }
            for unit in units
        ]
    )  # fmt: skip


def _rows_of_units(counts: UnitCounts) -> pa.Table:
    units = np.flatnonzero(counts.objects)
    columns = {
        "plan_version": np.full(len(units), counts.plan_version),
        "unit": units,
        "objects": counts.objects[units],
        "subscriptions": np.zeros(len(units), np.int64),
        "candidates": counts.candidates[units],
        "matches": counts.matches[units],
        "cpu_seconds": np.zeros(len(units)),
    }
    return pa.table(columns)
