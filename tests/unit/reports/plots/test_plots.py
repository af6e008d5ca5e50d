"""Bars stay within their chart, maps stay small, regions are closed paths, and a view has a bounded shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pststream.plans.plan import DispatchGrid, space_plan
from pststream.queries.shapes.contract import Region
from pststream.queries.shapes.registry import read_region
from pststream.reports.plots.bar_chart import HEIGHT, WIDTH, BarValue, draw_bar_chart, round_up
from pststream.reports.plots.plan_map import WIDTH as MAP_WIDTH
from pststream.reports.plots.plan_map import cover_with_rectangles, draw_plan_map, fit_view, region_path
from pststream.reports.reading.plan_view import PlanView
from pststream.reports.reading.samples import MatchView


def test_segments_are_stacked_in_proportion_to_their_values() -> None:
    bars = [BarValue(1, [2.0, 1.0], "one"), BarValue(2, [0.0, 3.0], "two")]
    chart = draw_bar_chart("Seconds", bars, ["s0", "s1"], lambda value: f"{value:g} s")
    (low, high), (only,) = (bar.segments for bar in chart.bars)
    assert (low.style, high.style, only.style) == ("s0", "s1", "s1")
    assert float(low.height) == pytest.approx(2 * float(high.height), abs=0.02)
    assert float(low.y) == pytest.approx(float(high.y) + float(high.height), abs=0.02)
    assert float(only.y) == pytest.approx(float(high.y), abs=0.02)
    assert [tick.text for tick in chart.ticks] == ["0 s", "1.5 s", "3 s"]
    assert chart.label == "Seconds, batches 1 to 2" and [name.text for name in chart.names] == ["1", "2"]


def test_an_axis_may_begin_above_zero_and_a_line_divides_the_bars() -> None:
    bars = [BarValue(batch, [value], "") for batch, value in ((7, 1.0), (8, 2.0))]
    chart = draw_bar_chart("Balance", bars, ["s1"], str, divided=[8], origin=1.0)
    assert chart.bars[0].segments == [] and len(chart.bars[1].segments) == 1
    assert chart.dividers.count("M") == 1
    assert [tick.text for tick in chart.ticks] == ["1.0", "1.5", "2.0"]


def test_many_bars_stay_within_the_chart_with_few_names() -> None:
    chart = draw_bar_chart("x", [BarValue(batch, [batch], "") for batch in range(1, 61)], ["s1"], str)
    ends = [float(segment.x) + float(segment.width) for bar in chart.bars for segment in bar.segments]
    assert max(ends) <= WIDTH and len(chart.names) == 12
    assert all(float(segment.y) + float(segment.height) < HEIGHT for bar in chart.bars for segment in bar.segments)


@pytest.mark.parametrize(("value", "top"), [(0.0, 0.001), (0.7, 0.8), (1.0, 1.0), (13.5, 15.0), (52_400, 60_000)])
def test_the_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert round_up(value) == top


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 3)))
def test_rectangles_cover_each_cell_once(raster: np.ndarray) -> None:
    cover = cover_with_rectangles(raster)
    covered = np.full(raster.shape, -1)
    for value, left, right, low, high in zip(cover.value, cover.left, cover.right, cover.low, cover.high):
        assert (covered[low:high, left:right] == -1).all()
        covered[low:high, left:right] = value
    assert (covered == raster).all()


def test_a_rectangle_is_one_rectangle() -> None:
    assert len(cover_with_rectangles(np.zeros((512, 512), dtype=np.int64)).value) == 1


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


@given(
    st.lists(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), max_size=8),
)
def test_a_view_has_a_shape(points: list[tuple[float, float]]) -> None:
    array = np.array(points).reshape(-1, 2)
    view = fit_view(array[:, 0], array[:, 1])
    assert -180 <= view.west < view.east <= 180 and -90 <= view.south < view.north <= 90
    assert 200 <= view.height <= 1000
    assert view.x(view.east) == pytest.approx(MAP_WIDTH) and view.y(view.south) == pytest.approx(view.height)
