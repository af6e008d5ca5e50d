"""Pages of subscriptions with memory: the answer on a map, its changes, words over time, in a report and in Airflow."""

from pathlib import Path

import pytest

from pststream.base import names
from pststream.reports.pages import airflow_views
from pststream.reports.pages.report_page import write_report
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    at,
    copy_of,
    insertion,
    log_row,
    thing,
)
from tests.unit.reports.pages.test_airflow_views import HOSTILE, Elements

POINT = {"lon": 1.0, "lat": 2.0, "k": 2}


@pytest.fixture(scope="module")
def home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Answers of each kind, hostile texts and an erased object."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("standing") / "home")
    requests = [
        insertion(1, HOSTILE, kind="knn", **POINT),
        insertion(2, "best", kind="topk", alpha=0.5, distance_scale_m=1000.0, window_us=3_600_000_000, **POINT),
        insertion(3, "words", kind="frequent_terms", k=2, window_us=3_600_000_000, step_us=3_600_000_000),
        insertion(4, "empty", kind="knn", **POINT),
        insertion(5, "box"),
    ]
    add_file(home, "requests", requests)
    text = f"free coffee {HOSTILE}"
    add_file(
        home, "objects", [thing(1, "near", 1, lon=1.01, lat=2.01, text=text), thing(2, HOSTILE, 2, lon=1.0, lat=2.02)]
    )
    places = [(2, 1), (2, 2), (2, 3)]  # the last one was erased
    rows = [
        log_row(
            1,
            subscription_key=log_key(1, 1),
            object_key=log_key(*place),
            ts=at(place[1]),
            value=100.0 * rank,
            rank=rank,
        )
        for rank, place in enumerate(places, 1)
    ]
    rows.append({**rows[2], "event": "left", "batch_id": 2})
    rows.append({**rows[0], "subscription_key": log_key(1, 2), "value": -0.75})
    for tick in (60, 120):
        for rank, word in enumerate(("coffee", HOSTILE), 1):
            rows.append(
                log_row(2, subscription_key=log_key(1, 3), ts=at(tick), term=word, count=tick // rank, rank=rank)
            )
    add_answer_rows(home, names.ANSWER_LOG, rows, part="change")
    add_batch(home, stream_time=at(2))
    add_batch(home, stream_time=at(125))
    return home


def page(home: Home, subscription_id: str) -> Elements:
    found = airflow_views.subscription_page(home.path, subscription_id)
    assert found.status == 200
    return Elements(found.text)


def test_the_answer_of_knn_is_on_a_map_with_its_circle(home: Home) -> None:
    elements = page(home, HOSTILE)
    text = " ".join(elements.text.split())
    assert "2 objects, as of stream time 2026-03-01 02:05:00 UTC." in text
    dots = [attrs for _, attrs in elements.tags if attrs.get("class") == "match"]
    assert [dot["data-rows"] for dot in dots] == ["0", "1"]
    (region,) = (attrs["d"] for _, attrs in elements.tags if attrs.get("id") == "region")
    assert region and region.startswith("M"), "the circle of the second object"
    assert "100 m" in text and "(erased)" in text and "No match" not in text
    links = [str(link["href"]) for link in elements.all("a")]
    assert "object?id=near" in links
    (chart,) = (attrs["aria-label"] for _, attrs in elements.tags if attrs.get("class") == "plot")
    assert chart == "Rows that entered and left, batches 1 to 2"


def test_the_answer_of_topk_has_scores_and_no_circle(home: Home) -> None:
    elements = page(home, "best")
    assert "0.750000" in elements.text and "1 object, as of" in elements.text
    (region,) = (attrs["d"] for _, attrs in elements.tags if attrs.get("id") == "region")
    assert not region


def test_words_over_time(home: Home) -> None:
    elements = page(home, "words")
    text = " ".join(elements.text.split())
    assert "2 terms, report of 2026-03-01 02:00:00 UTC." in text and "Words over time" in text
    cells = [attrs["title"] for attrs in elements.all("td") if attrs.get("title")]
    assert cells[:2] == ["coffee, 2026-03-01 01:00:00 UTC: 60 objects", "coffee, 2026-03-01 02:00:00 UTC: 120 objects"]
    assert len(cells) == 4


def test_a_subscription_whose_answer_is_empty(home: Home) -> None:
    text = page(home, "empty").text
    assert "0 objects, as of" in text and "No batch has changed the answer." in text


def test_a_subscription_without_an_answer_has_matches(home: Home) -> None:
    text = page(home, "box").text
    assert "No match was found." in text and "Changes" not in text


def test_the_overview_leads_to_subscriptions_whose_answers_changed(home: Home) -> None:
    elements = Elements(airflow_views.overview_page(home.path).text)
    links = {str(link["href"]) for link in elements.all("a")}
    assert {"subscription?id=best", "subscription?id=words"} <= links and "subscription?id=box" not in links
    assert "frequent_terms" in elements.text and not elements.all("b")


def test_the_report_shows_answers_of_each_kind(home: Home, tmp_path: Path) -> None:
    document = write_report(home.path, tmp_path / "report.html")
    assert document["problems"] == []
    elements = Elements((tmp_path / "report.html").read_text("utf-8"))
    shown = [attrs["aria-label"] for attrs in elements.all("article")]
    assert shown == [f"Subscription {name}" for name in (HOSTILE, "empty", "best", "words")]


def test_no_text_becomes_markup(home: Home, tmp_path: Path) -> None:
    write_report(home.path, tmp_path / "report.html")
    texts = [airflow_views.subscription_page(home.path, one).text for one in (HOSTILE, "best", "words")]
    for text in [*texts, (tmp_path / "report.html").read_text("utf-8")]:
        elements = Elements(text)
        assert [tag for tag, _ in elements.tags].count("script") == 1
        assert not elements.all("b") and "alert('x')" in elements.text
        assert not any(attribute.startswith("on") for _, attrs in elements.tags for attribute in attrs)
        ids = [attrs["id"] for _, attrs in elements.tags if attrs.get("id")]
        assert len(ids) == len(set(ids))
