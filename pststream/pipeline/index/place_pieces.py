"""Place the subscriptions of new pieces, under a plan that shares by subscription, and send the pieces to workers.

Placing a subscription needs the loads of all units, so one task places all subscriptions of a batch, or of a new index.
It receives a short description of each subscription instead of its pieces. The stages are: tasks send the pieces to
parts by subscription key, and the descriptions to the part that places; this part sends the unit of each subscription
to the part of its pieces; these parts record the units and send the pieces to workers.

The loads of the units are kept in `placements`, and the counts of the plan's sample in `placement_counts`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.arrow_columns import csr, lists
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.task_context import TaskContext
from pststream.kernels.planning.split_subscriptions import AreaIndex
from pststream.planning.planners.by_subscription import NO_AREAS, build_area_index, describe, place
from pststream.planning.planners.registry import load_placement
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.pieces import first_clauses, recorded_units
from pststream.plans.plan import DispatchGrid, PartitionPlan, SubscriptionPlan
from pststream.plans.planner_sample import SampleCounts
from pststream.queries.shapes.registry import SIDES
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, FileWriter, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.storage.array_cache import ArrayCache
from pststream.tables.delta_tables import last_transaction, read_table

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


@lru_cache(maxsize=1)
def placement_counts(home: str, version: int, grid: DispatchGrid) -> SampleCounts:
    """Return the counts of the sample of a plan, kept in the process; grid: its raster."""
    rows = read_table(Home(home).table(names.PLACEMENT_COUNTS), filter=pds.field("plan_version") == version)
    rows = rows.sort_by([("term_id", "ascending"), ("cell", "ascending")])
    # Copies, since read-only arrays are a type of its own for the compiler.
    terms, cells, objects = (rows.column(name).to_numpy().copy() for name in ("term_id", "cell", "objects"))
    scale = read_state(Home(home), version, INDEX_BUILT, REBUILD).object_scale
    return SampleCounts(grid.columns, grid.rows, terms, cells, objects, scale)


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
    files = [
        file.path
        for file in list_data_files(home, names.PLACEMENT_AREAS)
        if file.may_contain("plan_version", version, version)
    ]
    cache = _area_cache(context.cache_dir, context.cache_bytes)

    def build() -> dict[str, np.ndarray]:
        first = (pds.field("plan_version") == version) & (pds.field("number") < areas)
        rows = read_table(home.table(names.PLACEMENT_AREAS), filter=first).sort_by("number")
        return build_area_index(np.column_stack([rows.column(name).to_numpy() for name in RANGE]))._asdict()

    return AreaIndex(**cache.arrays((context.home, f"plan {version}, {areas} areas", *files), build))


@lru_cache(maxsize=4)
def _area_cache(folder: str, max_bytes: int) -> ArrayCache:
    return ArrayCache(folder, max_bytes, "areas")


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


@dataclass(frozen=True)
class PlacingPlan:
    """A plan that shares by subscription, the version under which its counts and loads are stored, and the step of a
    batch that places.
    """

    plan: SubscriptionPlan
    placement_version: int
    step: str


def commit_placed(home: Home, written: Mapping[str, list[DataFile]], placing: PlacingPlan, batch_id: int) -> None:
    """Commit what a step of a batch has placed, once, before its pieces; written: files by table.

    A second attempt finds none of the pieces in the index, and places them alike. The areas come first: their number in
    `placements` says which of them count.
    """
    step = placing.step
    for name in (names.PLACEMENT_AREAS, names.PLACEMENTS):
        application, transaction = f"{step}-{placing.placement_version}", batch_id
        if step == REBUILD:
            # A killed planner may have built an index of this version; so each try has a transaction number of its own.
            application, transaction = step, last_transaction(home.table(name), step) + 1
        commit_files(home, name, written[name], application=application, transaction=transaction)
        if name == names.PLACEMENT_AREAS:
            crash_point("areas_placed")


PIECES, DESCRIBED, PLACED, RECORDED, PASSED, STATE, AREAS = 0, 1, 2, 3, 4, 5, 6
"""Tags of sent rows: pieces without units; descriptions of subscriptions; their units; pieces with units; rows that are
sent on as they are; the row of `placements`; rows of `placement_areas`."""


def placing_plan(plan: PartitionPlan, placement_version: int, step: str) -> PlacingPlan | None:
    """Return the plan to place in a step; None if it does not share by subscription."""
    return PlacingPlan(plan, placement_version, step) if isinstance(plan, SubscriptionPlan) else None


def send_to_place(
    pieces: pa.RecordBatch, placing: PlacingPlan, parts: int, ranges: np.ndarray | None = None
) -> Iterator[SentRows]:
    """Send pieces, the posted clause first, to the parts of their keys, and their descriptions to the part that places.

    That part has the number `parts`.

    ranges  int32[n, 4]  raster cells that count for the cost of each piece; None: those of its box
    """
    cells = cells_of_pieces(pieces, placing.plan) if ranges is None else ranges
    described = {
        "subscription_key": pieces.column("subscription_key"),
        **{name: pa.array(cells[:, side]) for side, name in enumerate(RANGE)},
        "terms": lists(*first_clauses(pieces.column("clauses"))),
    }
    yield parts, DESCRIBED, pa.RecordBatch.from_pydict(described)
    yield from send_by_key(pieces, PIECES, parts)


def send_recorded(pieces: pa.RecordBatch, parts: int) -> Iterator[SentRows]:
    """Send pieces whose units are recorded through the stages of `placing_stages`."""
    return send_by_key(pieces, RECORDED, parts)


def send_on(rows: pa.RecordBatch) -> SentRows:
    """Send rows through the stages of `placing_stages` to the first part after those of the workers."""
    return 0, PASSED, rows


def placing_stages(
    context: TaskContext,
    placing: PlacingPlan,
    parts: int,
    by_worker: Callable[[pa.RecordBatch, np.ndarray, np.ndarray], Iterator[SentRows]],
) -> list[Stage]:
    """Return the stages that place what `send_to_place` sends and send it to workers.

    by_worker: takes pieces, and the row and the worker of each that is to be stored; yields rows for workers
    After the parts of the workers follow one for the rows of `send_on`, one for the row of `placements` and one for
    rows of `placement_areas`.
    """
    return [
        Stage(parts + 1, partial(_hold_or_place, context, placing, parts)),
        Stage(parts + 1, partial(_record_units, context, placing, parts, by_worker)),
    ]


def cells_of_pieces(pieces: pa.RecordBatch, plan: PartitionPlan) -> np.ndarray:
    """Return the raster cells of the box of each piece: int32[n, 4]."""
    boxes = np.column_stack([pieces.column(side).to_numpy() for side in SIDES])
    return compute_cell_ranges(plan.grid, boxes)


def send_by_key(rows: pa.RecordBatch, tag: int, parts: int) -> Iterator[SentRows]:
    """Send rows to the parts of their subscription keys."""
    part = rows.column("subscription_key").to_numpy() % parts
    for ordinal in distinct_values(part).tolist():
        yield ordinal, tag, rows.filter(pa.array(part == ordinal))


def _hold_or_place(
    context: TaskContext, placing: PlacingPlan, parts: int, part: int, received: ReceivedRows
) -> Iterator[SentRows]:
    """Keep the pieces of a part; in the last part place the described subscriptions, and send the unit of each."""
    if part < parts:
        for tag, rows in received:
            yield part, tag, rows
        return
    plan, version = placing.plan, placing.placement_version
    table = pa.Table.from_batches([rows for _, rows in received]).sort_by("subscription_key").combine_chunks()
    (described,) = table.to_batches()
    ranges = np.column_stack([described.column(name).to_numpy() for name in RANGE])
    subscriptions, _ = describe(
        described.column("subscription_key").to_numpy(), ranges, *csr(described.column("terms"))
    )
    state = read_state(Home(context.home), version, context.batch_id, placing.step)
    counts = placement_counts(context.home, version, plan.grid)
    areas = read_area_index(context, version, state.areas)
    placed = place(load_placement(plan), plan, counts, subscriptions, state.present_to, state.loads, [areas])
    units = {"subscription_key": subscriptions.keys, "unit": placed.units.astype(np.int64)}
    yield from send_by_key(pa.RecordBatch.from_pydict(units), PLACED, parts)
    after = PlacementState(state.present_to, state.object_scale, placed.loads, state.areas + len(placed.areas))
    row, schema = _row(version, context.batch_id, placing.step, after), TABLES[names.PLACEMENTS].schema
    yield parts, STATE, pa.RecordBatch.from_pylist([row], schema=schema)
    columns = {name: pa.array(placed.areas[:, side]) for side, name in enumerate(RANGE)}
    columns |= {"plan_version": np.full(len(placed.areas), version), "number": np.arange(state.areas, after.areas)}
    yield parts, AREAS, pa.RecordBatch.from_pydict(columns, schema=TABLES[names.PLACEMENT_AREAS].schema)


def _record_units(
    context: TaskContext,
    placing: PlacingPlan,
    parts: int,
    by_worker: Callable[[pa.RecordBatch, np.ndarray, np.ndarray], Iterator[SentRows]],
    part: int,
    received: ReceivedRows,
) -> Iterator[SentRows]:
    """Record the units of the pieces of a part, and send them to their workers."""
    waiting, placed = list[pa.RecordBatch](), list[pa.RecordBatch]()
    for tag, rows in received:
        if tag == RECORDED:
            yield from _to_owners(rows, placing.plan, by_worker)
        elif tag in (PASSED, STATE, AREAS):
            yield context.workers + (PASSED, STATE, AREAS).index(tag), 0, rows
        else:
            (waiting if tag == PIECES else placed).append(rows)
    if not waiting:
        return
    units_of = pa.Table.from_batches(placed)
    keys, units = (units_of.column(name).to_numpy() for name in ("subscription_key", "unit"))
    order = np.argsort(keys)
    for pieces in waiting:
        own = pieces.column("subscription_key").to_numpy()
        unit = pa.array(units[order[np.searchsorted(keys, own, sorter=order)]])
        recorded = pieces.set_column(pieces.schema.get_field_index("unit"), "unit", unit)
        yield from _to_owners(recorded, placing.plan, by_worker)


def _to_owners(
    pieces: pa.RecordBatch,
    plan: SubscriptionPlan,
    by_worker: Callable[[pa.RecordBatch, np.ndarray, np.ndarray], Iterator[SentRows]],
) -> Iterator[SentRows]:
    """Send pieces with units to their owners."""
    owners = plan.owner_workers(pieces.column("subscription_key").to_numpy(), recorded_units(pieces.column("unit")))
    return by_worker(pieces, np.arange(len(owners)), owners)
