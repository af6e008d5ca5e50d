"""Parts of the page: markup, rectangles, projection, regions, marked words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pststream.domain.plan import DispatchGrid, space_plan
from pststream.format_values import counted, percent, seconds, short, whole
from pststream.reports.pages.matches_section import mark_words
from pststream.reports.plots.html import Markup, element, escape, joined
from pststream.reports.plots.leaf_rectangles import rectangles
from pststream.reports.plots.plan_map import draw_map, region_path
from pststream.reports.plots.projection import WIDTH, view_of
from pststream.reports.reading.plan_view import PlanView
from pststream.reports.reading.samples import MatchView


@given(st.text())
def test_any_text_is_escaped(text: str) -> None:
    made = element("p", text, title=text)
    assert made.count("<") == 2 and made.count(">") == 2
    assert made.count('"') == 2


def test_markup_is_built() -> None:
    assert escape(Markup("<b>")) == "<b>"
    assert element("br") == "<br>"
    assert element("a", ["x", [1, None, 2.5]], class_="k", hidden=True, open=False, data_x=3) == (
        '<a class="k" hidden data-x="3">x12.5</a>'
    )
    assert joined("a\x00\x1bb\n", "\ud800") == "a  b\n?"


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 3)))
def test_rectangles_cover_each_cell_once(raster: np.ndarray) -> None:
    found = rectangles(raster)
    covered = np.full(raster.shape, -1)
    for value, left, right, low, high in zip(found.value, found.left, found.right, found.low, found.high):
        assert (covered[low:high, left:right] == -1).all()
        covered[low:high, left:right] = value
    assert (covered == raster).all()


def test_a_rectangle_is_one_rectangle() -> None:
    assert len(rectangles(np.zeros((512, 512), dtype=np.int64))) == 1


@given(
    st.lists(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), max_size=8),
)
def test_a_view_has_a_shape(points: list[tuple[float, float]]) -> None:
    array = np.array(points).reshape(-1, 2)
    view = view_of(array[:, 0], array[:, 1])
    assert -180 <= view.west < view.east <= 180 and -90 <= view.south < view.north <= 90
    assert 200 <= view.height <= 1000
    assert view.x(view.east) == pytest.approx(WIDTH) and view.y(view.south) == pytest.approx(view.height)


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
    drawing, _ = draw_map(view, None, np.empty((0, 2)), [])
    assert len(drawing) < 3_000_000
    assert drawing.count('class="leaf') <= 6_000


def _match(**changes: object) -> MatchView:
    values = {
        "object_id": "o", "subscription_id": "s", "ts": None, "lon": 0.0, "lat": 0.0, "text": "", "keywords": "a",
        "payload": {}, "boxes": [(-1.0, -1.0, 1.0, 1.0)], "circle": None, "worker": 0, **changes,
    }  # fmt: skip
    return MatchView(**values)  # type: ignore[arg-type]


def test_regions_become_paths() -> None:
    view = view_of(np.array([-10.0, 10.0]), np.array([-10.0, 10.0]))
    assert region_path(_match(), view).count("H") == 2
    assert region_path(_match(circle=(0.0, 0.0, 50_000.0)), view).count("L") == 47
    fiji = _match(
        boxes=[(170.0, -20.0, 180.0, -10.0), (-180.0, -20.0, -170.0, -10.0)], circle=(179.9, -15.0, 900_000.0)
    )
    assert region_path(fiji, view).count("Z") == 2
    pole = _match(boxes=[(-180.0, 80.0, 180.0, 90.0)], circle=(0.0, 89.0, 900_000.0))
    assert region_path(pole, view).count("Z") == 1


@pytest.mark.parametrize(
    ("text", "keywords", "marked"),
    [
        ("Free coffee, cheap cake", "coffee AND (free OR cheap)", ["Free", "coffee,", "cheap"]),
        ("or nothing AND", '"or" OR x', ["or"]),
        ("बारिश में गरम चाय", "चाय AND बारिश", ["बारिश", "चाय"]),
        ("STRASSE und Straße", "straße", ["STRASSE", "Straße"]),
        ("a <b> c", "b", ["&lt;b&gt;"]),
        ("", "x", []),
    ],
)
def test_words_are_marked(text: str, keywords: str, marked: list[str]) -> None:
    made = mark_words(text, keywords)
    assert [part.split("</mark>")[0] for part in made.split("<mark>")[1:]] == marked


def test_numbers_read_well() -> None:
    assert [short(v) for v in (None, 0, 950, 12_300, 4.56e6)] == ["–", "0", "950", "12.3\u202fk", "4.56\u202fM"]
    assert [short(v) for v in (999.7, 999_700)] == ["1\u202fk", "1\u202fM"]
    assert [seconds(v) for v in (0.5, 12.34, 130, 7_260)] == [
        "0.50\u202fs",
        "12.3\u202fs",
        "2\u202fmin 10\u202fs",
        "2\u202fh 01\u202fmin",
    ]
    assert whole(1234567) == "1,234,567" and percent(0.1234) == "12.3\u202f%"
    assert counted(1, "match", "matches") == "1 match" and counted(2, "leaf", "leaves") == "2 leaves"
