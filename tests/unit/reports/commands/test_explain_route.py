"""Owners of terms and rarest clauses equal those of the fast code; an index cell contains its point."""

import random

import numpy as np
import pyarrow as pa

from pststream.planning.dispatch import DispatchIndex
from pststream.plans.pieces import rarest_clause_first
from pststream.reports.commands.explain_matches import find_index_cell, find_rarest_clause
from tests.routes import units_of
from tests.unit.reports.commands.test_plans import shared_by_text


def test_cells() -> None:
    rnd = random.Random(3)
    for _ in range(300):
        lon, lat = rnd.choice((-180.0, 180.0, 0.0, rnd.uniform(-180, 180))), rnd.uniform(-90, 90)
        side = rnd.choice((0.0, 1e-4, 0.1, 5.0, 90.0))
        box = (max(lon - side, -180.0), max(lat - side / 2, -90.0), min(lon + side, 180.0), min(lat + side, 90.0))
        cell = find_index_cell(box, lon, lat)
        width = 360.0 / (1 << cell.level)
        assert cell.cell >> (2 * cell.level) == 1
        assert cell.level == 0 or width >= max(box[2] - box[0], box[3] - box[1])
        assert cell.column * width - 180.0 <= lon <= (cell.column + 1) * width - 180.0
        assert cell.row * width - 90.0 <= lat <= (cell.row + 1) * width - 90.0


def test_units() -> None:
    plan = shared_by_text()
    dispatch = DispatchIndex(plan)
    rnd = random.Random(4)
    for term in (5, 9, 7, 8, -3, -(2**63), 2**63 - 1, *(rnd.getrandbits(63) for _ in range(20))):
        lon, lat = rnd.uniform(-180, 180), rnd.uniform(-90, 90)
        owner = units_of(dispatch, np.array([lon]), np.array([lat]), np.array([term], np.int64))
        assert plan.find_unit(lon, lat, {term}, term) == owner[0]


def test_rarest_clause() -> None:
    rnd = random.Random(5)
    frequencies = {term: rnd.randrange(4) for term in range(8)}
    lookup = np.array([*frequencies.values(), 0, 0])
    for _ in range(200):
        clauses = tuple(tuple(rnd.sample(range(10), rnd.randint(1, 3))) for _ in range(rnd.randint(1, 4)))
        rows = pa.array([clauses], pa.list_(pa.list_(pa.int64())))
        ordered, _, _ = rarest_clause_first(rows, lambda terms: lookup[terms])
        assert tuple(ordered.to_pylist()[0][0]) == find_rarest_clause(clauses, frequencies)
