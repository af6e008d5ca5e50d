"""Hypothesis strategies for random samples and random plans, including leaves partitioned by text."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pststream.planning.live_terms import make_sample_with_reads
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.plans.plan_nodes import PlanNodes
from pststream.plans.planner_sample import SampledQuestions, WorkloadSample

TERMS = (-(2**63), -7, -1, 0, 1, 2, 3, 10, 2**40, 2**63 - 2, 2**63 - 1)
"""Ids use all 64 bits, the sign included."""


def pack(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Convert lists to CSR: offsets int64[n+1], values int64[m]."""
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return offsets, np.array([value for values in lists for value in values], dtype=np.int64)


def unpack(offsets: np.ndarray, values: np.ndarray) -> list[list[int]]:
    """Convert CSR to lists."""
    return [values[start:stop].tolist() for start, stop in zip(offsets[:-1], offsets[1:])]


def make_sample(
    points: list[tuple[float, float]],
    terms: list[list[int]],
    boxes: list[tuple[float, float, float, float]],
    posts: list[list[int]],
    keys: list[int] | None = None,
    **scales: Any,
) -> WorkloadSample:
    """Make a sample from plain lists."""
    lon_lat = np.array(points, dtype=np.float64).reshape(-1, 2)
    term_offsets, term_ids = pack([sorted(set(ids)) for ids in terms])
    post_offsets, post_terms = pack([sorted(set(ids)) for ids in posts])
    return make_sample_with_reads(
        lon=np.ascontiguousarray(lon_lat[:, 0]),
        lat=np.ascontiguousarray(lon_lat[:, 1]),
        term_offsets=term_offsets,
        terms=term_ids,
        boxes=np.array(boxes, dtype=np.float64).reshape(-1, 4),
        piece_key=np.array(range(len(boxes)) if keys is None else keys, dtype=np.int64),
        post_offsets=post_offsets,
        post_terms=post_terms,
        **scales,
    )


@st.composite
def samples(draw: st.DrawFn) -> WorkloadSample:
    """Draw up to 40 objects and 40 pieces: spread, in one place, on edges of boxes, far out; any terms.

    All pieces of a subscription have the same terms, as those of the index do.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    objects, pieces = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    spread = draw(st.sampled_from((0.0, 1e-6, 0.5, 10.0, 400.0)))
    side = draw(st.sampled_from((0.0, 0.1, 3.0, 400.0)))
    middles = np.clip(rng.normal(0.0, 1.0, (pieces, 2)) * spread + (12.0, 45.0), (-180, -90), (180, 90))
    half = rng.random((pieces, 2)) * side
    boxes = np.clip(np.hstack([middles - half, middles + half]), (-180, -90) * 2, (180, 90) * 2)
    points = np.clip(rng.normal(0.0, 1.0, (objects, 2)) * spread + (12.0, 45.0), (-180, -90), (180, 90))
    if pieces and draw(st.booleans()):
        corners = rng.integers(0, pieces, objects)
        points = np.column_stack([boxes[corners, rng.choice([0, 2])], boxes[corners, rng.choice([1, 3])]])
    known = draw(st.sampled_from((1, 4, len(TERMS))))
    keys = rng.integers(0, pieces + 1, pieces).tolist()
    posts = [rng.choice(TERMS[:known], rng.integers(0, 4)).tolist() for _ in range(pieces + 1)]
    return make_sample(
        points=[(x, y) for x, y in points.tolist()],
        terms=[rng.choice(TERMS[:known], rng.integers(0, 6)).tolist() for _ in range(objects)],
        boxes=[tuple(box) for box in boxes.tolist()],
        posts=[posts[key] for key in keys],
        keys=keys,
        insertions=draw(st.sampled_from((0.0, 0.25, 1.0))),
        deletions=draw(st.sampled_from((0.0, 0.5, 3.0))),
        object_scale=draw(st.sampled_from((1.0, 2.5))),
        subscription_scale=draw(st.sampled_from((1.0, 4.0))),
    )


@st.composite
def asked_samples(draw: st.DrawFn) -> WorkloadSample:
    """Draw a sample, half of the time with up to 30 questions of any keywords, or none, near the objects."""
    sample = draw(samples())
    if draw(st.booleans()):
        return sample
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 30))
    middles = np.clip(rng.normal(0.0, 1.0, (count, 2)) * draw(st.sampled_from((0.0, 3.0))) + (12.0, 45.0), -90, 90)
    half = rng.random((count, 2)) * draw(st.sampled_from((0.0, 1.0, 40.0)))
    offsets, words = pack([sorted(set(rng.choice(TERMS, rng.integers(0, 4)).tolist())) for _ in range(count)])
    return replace(sample, questions=SampledQuestions(np.hstack([middles - half, middles + half]), offsets, words))


@st.composite
def plans(draw: st.DrawFn) -> PartitionPlan:
    """Draw leaves of any shape, some without a cell; whole or partitioned by text; units assigned at random."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    grid = DispatchGrid(-10.0, 30.0, 30.0, 60.0, draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    leaves, workers = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    by_text = rng.random(leaves) < draw(st.sampled_from((0.0, 0.5, 1.0)))
    sizes = np.where(by_text, rng.integers(1, 5, leaves), 1)
    names = np.split(rng.permutation(sizes.sum()), np.cumsum(sizes)[:-1])
    leaf_unit, terms, term_unit, spread = [], [], [], []
    for text, units in zip(by_text, names):
        leaf_unit.append(-1 if text else int(units[0]))
        sharing = sorted(units[: rng.integers(1, len(units) + 1)].tolist()) if text else []
        alone = [unit for unit in units.tolist() if unit not in sharing] if text else []
        known = sorted(set(rng.choice(TERMS, rng.integers(0, 9)).tolist()) | set(TERMS[: len(alone)])) if text else []
        owners = rng.choice(units, len(known)).tolist()
        owners[: len(alone)] = alone
        spread.append(sharing)
        terms.append(known)
        term_unit.append(owners)
    term_offsets, term_ids = pack(terms)
    spread_offsets, spread_unit = pack(spread)
    return PartitionPlan(
        planner="random",
        workers=workers,
        grid=grid,
        cell_leaf=rng.integers(0, leaves, grid.cells).astype(np.int32),
        leaf_unit=np.array(leaf_unit, dtype=np.int32),
        term_offsets=term_offsets,
        terms=term_ids,
        term_unit=pack(term_unit)[1].astype(np.int32),
        spread_offsets=spread_offsets,
        spread_unit=spread_unit.astype(np.int32),
        unit_worker=rng.integers(0, workers, sizes.sum()).astype(np.int32),
        options={"seed": 1, "note": "made up"},
    )


def quarters(workers: int = 4) -> PartitionPlan:
    """Make a raster of 8 x 8 cells over (0, 0, 8, 8) in four quarters, one worker each."""
    x, y = np.arange(64) % 8, np.arange(64) // 8
    grid = DispatchGrid(0.0, 0.0, 8.0, 8.0, 8, 8)
    return space_plan("quarters", grid, (y // 4) * 2 + x // 4, np.arange(4) % workers, workers)


def same_nodes(one: PlanNodes | None, other: PlanNodes | None) -> bool:
    """Whether two trees are equal in every array."""
    if one is None or other is None:
        return one is other
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


def identical_plans(one: PartitionPlan, other: PartitionPlan) -> bool:
    """Whether two plans are equal in every field and every element, types included."""
    for name, value in vars(one).items():
        another = getattr(other, name)
        if isinstance(value, np.ndarray):
            if value.dtype != another.dtype or not np.array_equal(value, another):
                return False
        elif isinstance(value, PlanNodes):
            if not same_nodes(value, another):
                return False
        elif value != another:
            return False
    return True
