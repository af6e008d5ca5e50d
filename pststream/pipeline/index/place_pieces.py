"""Place the subscriptions of new pieces, under a plan that shares by subscription, and send the pieces to workers.

Placing a subscription needs the loads of all units, so one task places all subscriptions of a batch, or of a new index.
It receives a short description of each subscription instead of its pieces. The stages are: tasks send the pieces to
parts by subscription key, and the descriptions to the part that places; this part sends the unit of each subscription
to the part of its pieces; these parts record the units and send the pieces to workers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import csr, lists
from pststream.base.sorted_keys import distinct_values
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.task_context import TaskContext
from pststream.pipeline.index.placement_state import (
    RANGE,
    PlacementState,
    area_rows,
    placement_counts,
    read_area_index,
    read_state,
    state_rows,
)
from pststream.planning.planners.by_subscription import describe, place
from pststream.planning.planners.registry import load_placement
from pststream.planning.raster_ranges import compute_cell_ranges
from pststream.plans.owners import recorded_units
from pststream.plans.pieces import first_clauses
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.queries.shapes.registry import SIDES
from pststream.state.home import Home

PIECES, DESCRIBED, PLACED, RECORDED, PASSED, STATE, AREAS = 0, 1, 2, 3, 4, 5, 6
"""Tags of sent rows: pieces without units; descriptions of subscriptions; their units; pieces with units; rows that are
sent on as they are; the row of `placements`; rows of `placement_areas`."""


@dataclass(frozen=True)
class PlacingPlan:
    """A plan that shares by subscription, the version under which its counts and loads are stored, and the step of a
    batch that places (`placement_state.py`).
    """

    plan: SubscriptionPlan
    placement_version: int
    step: str


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
    yield parts, DESCRIBED, _describe(pieces, cells_of_pieces(pieces, placing.plan) if ranges is None else ranges)
    yield from _by_key(pieces, PIECES, parts)


def send_recorded(pieces: pa.RecordBatch, parts: int) -> Iterator[SentRows]:
    """Send pieces whose units are recorded through the stages of `placing_stages`."""
    return _by_key(pieces, RECORDED, parts)


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


def _describe(pieces: pa.RecordBatch, ranges: np.ndarray) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "subscription_key": pieces.column("subscription_key"),
            **{name: pa.array(ranges[:, side]) for side, name in enumerate(RANGE)},
            "terms": lists(*first_clauses(pieces.column("clauses"))),
        }
    )


def _by_key(rows: pa.RecordBatch, tag: int, parts: int) -> Iterator[SentRows]:
    part = rows.column("subscription_key").to_numpy() % parts
    for number in distinct_values(part).tolist():
        yield number, tag, rows.filter(pa.array(part == number))


def _hold_or_place(
    context: TaskContext, placing: PlacingPlan, parts: int, part: int, received: ReceivedRows
) -> Iterator[SentRows]:
    if part < parts:
        for tag, rows in received:
            yield part, tag, rows
    else:
        yield from _place(context, placing, parts, received)


def _place(context: TaskContext, placing: PlacingPlan, parts: int, received: ReceivedRows) -> Iterator[SentRows]:
    """Place the described subscriptions; send the unit of each to the part of its pieces."""
    plan, version = placing.plan, placing.placement_version
    rows = pa.Table.from_batches([rows for _, rows in received]).sort_by("subscription_key").combine_chunks()
    (described,) = rows.to_batches()
    ranges = np.column_stack([described.column(name).to_numpy() for name in RANGE])
    subscriptions, _ = describe(
        described.column("subscription_key").to_numpy(), ranges, *csr(described.column("terms"))
    )
    state = read_state(Home(context.home), version, context.batch_id, placing.step)
    counts = placement_counts(context.home, version, plan.grid)
    areas = read_area_index(context, version, state.areas)
    placed = place(load_placement(plan), plan, counts, subscriptions, state.present_to, state.loads, [areas])
    units = {"subscription_key": subscriptions.keys, "unit": placed.units.astype(np.int64)}
    yield from _by_key(pa.RecordBatch.from_pydict(units), PLACED, parts)
    after = PlacementState(state.present_to, state.object_scale, placed.loads, state.areas + len(placed.areas))
    yield parts, STATE, state_rows(version, context.batch_id, placing.step, after)
    yield parts, AREAS, area_rows(version, state.areas, placed.areas)


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
