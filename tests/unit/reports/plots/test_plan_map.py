"""Maps stay small for plans with many leaves; regions are drawn as closed paths; markers name their matches."""

import numpy as np
import pytest

from pststream.plans.plan import DispatchGrid, space_plan
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import read_region
from pststream.reports.plots.base_map import fit_view
from pststream.reports.plots.plan_map import draw_plan_map, region_path
from pststream.reports.reading.plan_view import PlanView
from pststream.reports.reading.samples import MatchView


def _view(plan_grid: DispatchGrid, cell_leaf: np.ndarray, leaves: int, workers: int) -> PlanView:
    plan = space_plan("grid", plan_grid, cell_leaf, np.arange(leaves) % workers, workers)
    ones = np.ones(leaves)
    return PlanView(1, {"worker_loads": None, "planner": "grid"}, plan, ones, ones, ones)


@pytest.mark.parametrize("leaves_of", ["tiles", "each cell", "scattered"])
def test_a_fine_raster_makes_a_small_map(leaves_of: str) -> None:
    grid = DispatchGrid(-125, 25, -66, 49, 512, 512)
    y, x = np.divmod(np.arange(grid.cells), 512)
    cell_leaf = {
        "tiles": y // 8 * 64 + x // 8,
        "each cell": np.arange(grid.cells),
        "scattered": np.random.default_rng(1).integers(0, 5_000, grid.cells),
    }[leaves_of]
    leaves = int(cell_leaf.max()) + 1
    view = _view(grid, cell_leaf, leaves, 16)
    assert view.worker_loads == [leaves / 16] * 16 or leaves % 16
    layer = draw_plan_map(view, None, np.empty((0, 2)), []).plan
    assert layer is not None and 0 < len(layer.areas) <= 6_000
    assert sum(len(area.path) + len(area.tip) for area in layer.areas) < 2_500_000


def _match(**changes: object) -> MatchView:
    values = {
        "object_id": "o", "subscription_id": "s", "ts": None, "lon": 0.0, "lat": 0.0, "text": "", "keywords": "a",
        "payload": {}, "region": Region(((-1.0, -1.0, 1.0, 1.0),)), "worker": 0, **changes,
    }  # fmt: skip
    return MatchView(**values)  # type: ignore[arg-type]


def test_regions_become_paths() -> None:
    view = fit_view(np.array([-10.0, 10.0]), np.array([-10.0, 10.0]))

    def path(**request: object) -> str:
        return region_path(read_region(request), view)

    assert path(bbox=[-1, -1, 1, 1]).count("L") == 3
    assert path(circle={"lon": 0, "lat": 0, "radius_m": 50_000}).count("L") == 47
    fiji = path(circle={"lon": 179.9, "lat": -15, "radius_m": 900_000})
    assert (fiji.count("Z"), fiji.count("L")) == (2, 6)
    pole = path(circle={"lon": 0, "lat": 89, "radius_m": 900_000})
    assert (pole.count("Z"), pole.count("L")) == (1, 3)
    square, hole = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]], [[1, 1], [1, 2], [2, 2], [1, 1]]
    holed = path(geometry={"type": "Polygon", "coordinates": [square, hole]})
    assert (holed.count("Z"), holed.count("L")) == (2, 5)


def test_an_object_has_one_marker_with_all_its_matches() -> None:
    matches = [_match(object_id=name, subscription_id=str(i), lon=lon) for i, (name, lon) in enumerate(
        [("b", 5.0), ("a", -5.0), ("b", 5.0)]
    )]  # fmt: skip
    markers = draw_plan_map(None, None, np.array([[-10.0, -10.0], [10.0, 10.0]]), matches).markers
    assert [marker.matches for marker in markers] == [[1], [0, 2]]
