"""Compute dispatch and load slowly with loops over cells, dictionaries and sets, without shared code."""

from math import floor

from pststream.plans.plan import DispatchGrid, PartitionPlan
from pststream.plans.planner_sample import POSTING_READS, WorkloadSample

Box = tuple[float, float, float, float]


def _slot(value: float, low: float, high: float, slots: int) -> int:
    return min(max(floor((value - low) * (slots / (high - low))), 0), slots - 1)


def cell_of(grid: DispatchGrid, lon: float, lat: float) -> int:
    """Return the raster cell of a point."""
    column = _slot(lon, grid.west, grid.east, grid.columns)
    return _slot(lat, grid.south, grid.north, grid.rows) * grid.columns + column


def cells_of(grid: DispatchGrid, box: Box) -> list[int]:
    """Return all raster cells that a box covers."""
    columns = range(
        _slot(box[0], grid.west, grid.east, grid.columns), _slot(box[2], grid.west, grid.east, grid.columns) + 1
    )
    rows = range(_slot(box[1], grid.south, grid.north, grid.rows), _slot(box[3], grid.south, grid.north, grid.rows) + 1)
    return [row * grid.columns + column for row in rows for column in columns]


def owner(plan: PartitionPlan, cell: int, term: int) -> int:
    """Return the unit that serves a term in a cell."""
    leaf = int(plan.cell_leaf[cell])
    if plan.leaf_unit[leaf] >= 0:
        return int(plan.leaf_unit[leaf])
    named = slice(plan.term_offsets[leaf], plan.term_offsets[leaf + 1])
    by_name = dict(zip(plan.terms[named].tolist(), plan.term_unit[named].tolist()))
    sharing = plan.spread_unit[plan.spread_offsets[leaf] : plan.spread_offsets[leaf + 1]].tolist()
    return int(by_name.get(term, sharing[term % 2**64 % len(sharing)]))


def units_of_piece(plan: PartitionPlan, box: Box, terms: list[int]) -> set[int]:
    """Return the units for which a piece is stored."""
    return {owner(plan, cell, term) for cell in cells_of(plan.grid, box) for term in terms}


def workers_of_piece(plan: PartitionPlan, box: Box, terms: list[int]) -> list[int]:
    """Return the workers that store a piece, ascending."""
    return sorted({int(plan.unit_worker[unit]) for unit in units_of_piece(plan, box, terms)})


def units_of_object(plan: PartitionPlan, lon: float, lat: float, live_terms: list[int]) -> set[int]:
    """Return the units that an object probes."""
    return {owner(plan, cell_of(plan.grid, lon, lat), term) for term in live_terms}


def workers_of_object(plan: PartitionPlan, lon: float, lat: float, live_terms: list[int]) -> list[int]:
    """Return the workers that an object goes to, ascending."""
    return sorted({int(plan.unit_worker[unit]) for unit in units_of_object(plan, lon, lat, live_terms)})


def _lists(offsets: list[int], values: list[int]) -> list[list[int]]:
    return [values[start:stop] for start, stop in zip(offsets[:-1], offsets[1:])]


def loads(
    sample: WorkloadSample, plan: PartitionPlan, costs: tuple[float, float, float, float, float]
) -> tuple[list[int], list[int], list[int], list[int], list[float]]:
    """Count the sampled objects and subscriptions of each unit and worker, and compute the scaled loads."""
    read = [0] * plan.workers
    posts = _lists(sample.post_offsets.tolist(), sample.post_terms.tolist())
    live = {term for terms in posts for term in terms}
    unit_objects: list[set[int]] = [set() for _ in range(plan.units)]
    unit_keys: list[set[int]] = [set() for _ in range(plan.units)]
    for i, terms in enumerate(_lists(sample.term_offsets.tolist(), sample.terms.tolist())):
        live_here = [term for term in terms if term in live]
        for unit in units_of_object(plan, float(sample.lon[i]), float(sample.lat[i]), live_here):
            unit_objects[unit].add(i)
        cell, first = cell_of(plan.grid, float(sample.lon[i]), float(sample.lat[i])), int(sample.term_offsets[i])
        for place, term in enumerate(terms):
            read[int(plan.unit_worker[owner(plan, cell, term)])] += int(sample.reads[first + place])
    for key, box, terms in zip(sample.piece_key.tolist(), sample.boxes.tolist(), posts):
        for unit in units_of_piece(plan, tuple(box), terms):
            unit_keys[unit].add(key)
    objects, keys, load = [], [], []
    for worker in range(plan.workers):
        mine = [unit for unit in range(plan.units) if plan.unit_worker[unit] == worker]
        objects.append(len(set().union(*(unit_objects[unit] for unit in mine))))
        keys.append(len(set().union(*(unit_keys[unit] for unit in mine))))
        o, q = objects[-1] * sample.object_scale, keys[-1] * sample.subscription_scale
        r = read[worker] / POSTING_READS * sample.object_scale * sample.subscription_scale
        load.append(costs[0] * o * q + costs[1] * o + costs[4] * r)
        load[-1] += q * (costs[2] * sample.insertions + costs[3] * sample.deletions)
    return [len(s) for s in unit_objects], [len(s) for s in unit_keys], objects, keys, load
