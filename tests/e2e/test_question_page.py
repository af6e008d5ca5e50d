"""A person draws questions on the map of the page with a mouse, and reads an answer, in a browser."""

import datetime as dt
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

from pststream.queries.kinds.contract import StoredSubscription
from pststream.queries.kinds.registry import KINDS
from pststream.queries.shapes.contract import haversine_m
from pststream.queries.shapes.registry import read_region, to_columns
from pststream.reports.commands.lookups import SubscriptionLookup
from pststream.reports.pages.airflow_views import render_subscription
from pststream.reports.pages.answer_section import AnsweredQuestion, AnswerRow
from pststream.reports.pages.question_page import render_answer, render_question
from pststream.reports.pages.standing_section import prepare_standing
from pststream.reports.reading.answer_view import AnswerView, ViewedChange, ViewedRow

CHROMIUM = shutil.which("chromium")
SIDES = ("west", "south", "east", "north")
AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to look with")]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright, playwright.chromium.launch(
        executable_path=CHROMIUM, args=["--no-sandbox"]
    ) as browser:  # fmt: skip
        page = browser.new_page(viewport={"width": 1200, "height": 1400})
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        yield page
        assert faults == []


def opened(page: Page, text: str, path: Path) -> Page:
    path.write_text(text, "utf-8")
    page.goto(path.as_uri())
    return page


def value(page: Page, field: str) -> str:
    return page.locator(f"#ask-{field}").input_value()


class DrawnMap:
    """Draws on the map; its corners in degrees are those of the page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        svg = page.locator("#map")
        svg.scroll_into_view_if_needed()
        box = svg.bounding_box()
        assert box is not None
        self.box = box
        self.west, self.south, self.east, self.north = (float(str(svg.get_attribute(f"data-{s}"))) for s in SIDES)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place on the screen of a share of the map's width and height."""
        return self.box["x"] + x * self.box["width"], self.box["y"] + y * self.box["height"]

    def degrees(self, x: float, y: float) -> tuple[float, float]:
        return self.west + x * (self.east - self.west), self.north - y * (self.north - self.south)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.page.mouse.move(*self.at(*start))
        self.page.mouse.down()
        self.page.mouse.move(*self.at(*end), steps=4)
        self.page.mouse.up()


def test_regions_and_a_point_are_drawn(page: Page, tmp_path: Path) -> None:
    places = np.array([[17.0, 59.0], [19.0, 60.0]])
    opened(page, render_question("home", {"kind": "range", "keywords": "tea"}, places), tmp_path / "form.html")
    assert page.locator("#ask-point").is_hidden() and page.locator("#ask-bbox").is_visible()
    before = page.locator("#map").get_attribute("viewBox")
    drawn = DrawnMap(page)
    near = (drawn.east - drawn.west) / 200

    page.get_by_role("button", name="Box").click()
    drawn.drag((0.6, 0.7), (0.25, 0.3))
    sides = [float(part) for part in value(page, "bbox").split(",")]
    (west, north), (east, south) = drawn.degrees(0.25, 0.3), drawn.degrees(0.6, 0.7)
    assert sides == pytest.approx([west, south, east, north], abs=near)

    page.get_by_role("button", name="Circle").click()
    drawn.drag((0.5, 0.5), (0.5, 0.75))
    lon, lat, radius = (float(part) for part in value(page, "circle").split(","))
    assert (lon, lat) == pytest.approx(drawn.degrees(0.5, 0.5), abs=near)
    assert radius == pytest.approx(haversine_m(lon, lat, *drawn.degrees(0.5, 0.75)), rel=0.02)
    assert value(page, "bbox") == "", "a question has one region"

    page.get_by_role("button", name="Polygon").click()
    for corner in ((0.2, 0.2), (0.6, 0.25)):
        page.mouse.click(*drawn.at(*corner))
    page.mouse.dblclick(*drawn.at(0.4, 0.7))
    region = read_region({"geometry": json.loads(value(page, "geometry"))})
    assert len(region.numbers[0]) == 8 and math.isclose(region.boxes[0][0], drawn.degrees(0.2, 0)[0], abs_tol=near)
    assert value(page, "circle") == "" and value(page, "keywords") == "tea"
    assert page.locator("#map").get_attribute("viewBox") == before, "drawing does not move the map"

    page.locator("#ask-kind").select_option("knn")
    assert page.locator("#ask-geometry").is_hidden() and value(page, "k") == "10"
    drawn = DrawnMap(page)  # the form has other fields now, and the map another place
    page.get_by_role("button", name="Point").click()
    page.mouse.click(*drawn.at(0.7, 0.4))
    assert [float(part) for part in value(page, "point").split(",")] == pytest.approx(drawn.degrees(0.7, 0.4), abs=near)
    page.get_by_role("button", name="Zoom in").click()
    page.mouse.click(*drawn.at(0.5, 0.5))
    assert [float(part) for part in value(page, "point").split(",")] == pytest.approx(drawn.degrees(0.5, 0.5), abs=near)


def test_an_answer_is_accessible_and_its_dots_show_their_rows(page: Page, tmp_path: Path) -> None:
    rows = [AnswerRow(n, f"o{n}", AT, 100.0 * n, lon=18 + n / 10, lat=59.5, text=f"tea {n}") for n in (1, 2, 3)]
    answered = AnsweredQuestion("knn", [("Kind", "knn")], "tea", None, (18.0, 59.5), rows, False, 0.1)
    opened(page, render_answer("home", {"kind": "knn", "k": "3"}, answered, form=True), tmp_path / "answer.html")
    page.locator('#map .match[data-rows="2"]').dispatch_event("click")
    assert "tea 3" in page.locator("#chosen").inner_text()
    for width in (1200, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert Axe().run(page).response["violations"] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


UNSET: dict[str, Any] = dict.fromkeys(("verified", "phrases", "conditions", "max_distance_m", "stop_words"))
"""Columns of an insertion that a test does not need."""


def standing_page(kind: str, stored: dict, view: AnswerView) -> str:
    """Return the page of a subscription with memory whose insertion has these columns."""
    query = KINDS[kind].read_query({**UNSET, "k": 2, "window_us": 3_600_000_000, **stored})
    subscription = StoredSubscription(7, "", "s", KINDS[kind], query, AT, None)
    lookup = SubscriptionLookup("", [subscription], 9, [], 0, True, [])
    return render_subscription("s", lookup, None, prepare_standing(subscription, view))


def test_the_answer_of_a_subscription_is_read_on_its_map(page: Page, tmp_path: Path) -> None:
    stored = {"keywords": "tea", "clauses": [], "lon": 18.0, "lat": 59.3, "window_objects": None}
    rows = [
        ViewedRow(rank, AT, 900.0 * rank, object_id=f"o{rank}", lon=18 + 0.01 * rank, lat=59.3, text=f"tea {rank}")
        for rank in (1, 2)
    ]
    changes = [ViewedChange(3, entered, 1, AT, 900.0, "o1", None, None) for entered in (True, False)]
    opened(page, standing_page("knn", stored, AnswerView(AT, rows, changes)), tmp_path / "knn.html")
    page.locator('#map .match[data-rows="1"]').press("Enter")
    assert "tea 2" in page.locator("#chosen").inner_text() and "1,800 m" in page.locator("#chosen").inner_text()
    circle, dot = (page.locator(one).bounding_box() for one in ("#region", '#map .match[data-rows="1"]'))
    assert circle is not None and dot is not None
    east = circle["x"] + circle["width"] / 2 * (1 + haversine_m(18.0, 59.3, 18.02, 59.3) / 1800)
    assert dot["x"] + dot["width"] / 2 == pytest.approx(east, abs=6), "the circle has the radius of the last object"
    assert page.locator("svg.plot rect").count() == 2
    assert Axe().run(page).violations_count == 0, Axe().run(page).generate_report()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_over_time_can_be_read_in_both_schemes(page: Page, tmp_path: Path, scheme: str) -> None:
    stored = dict.fromkeys(("circle", "geometry")) | to_columns(read_region({"bbox": [17.0, 59.0, 19.0, 60.0]}))
    ticks = {AT + dt.timedelta(hours=hour): {"tea": 30 - hour, "été": 1 + hour} for hour in range(24)}
    rows = [ViewedRow(1, AT, term="tea", count=30), ViewedRow(2, AT, term="été", count=1)]
    view = AnswerView(AT, rows, [], ticks)
    page.emulate_media(color_scheme=scheme)
    opened(page, standing_page("frequent_terms", {**stored, "step_us": 3_600_000_000}, view), tmp_path / "words.html")
    assert page.locator("table.heat tbody tr").count() == 2 and page.locator("table.heat tbody td").count() == 48
    assert Axe().run(page).violations_count == 0, Axe().run(page).generate_report()
    page.emulate_media(color_scheme="light")
