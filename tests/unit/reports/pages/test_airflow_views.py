"""The pages in Airflow show a home, answers and a question, escape every text, and say what is missing."""

import base64
import datetime as dt
import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pststream.base import names
from pststream.queries.kinds.registry import QUESTION_KINDS
from pststream.queries.shapes.registry import read_region
from pststream.reports.commands import explain_matches
from pststream.reports.pages import airflow_views
from pststream.reports.pages.airflow_views import question_fields
from pststream.reports.pages.answer_section import AnsweredQuestion, AnswerRow, mark_words, prepare_answer
from pststream.reports.pages.overview_page import read_overview
from pststream.reports.pages.question_page import LONGEST_VALUE, QUESTION_FIELDS, render_answer, render_question
from pststream.reports.pages.report_page import write_report
from pststream.search.ask import TYPED_FIELDS
from pststream.state import ledger_tables
from pststream.state.deliveries import Counts, SinkProgress, save_progress
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    add_plan,
    add_sinks,
    at,
    copy_of,
    halves,
    insertion,
    log_row,
    match_row,
    reject,
    thing,
)
from tests.unit.reports.elements import Elements

HOSTILE = "\"><script>alert('x')</script><b>&"


def migration(version: int, reason: str, before: list[float], after: list[float]) -> dict[str, object]:
    return {
        "plan_version": version, "plan_version_before": version - 1, "kind": "local", "reason": reason, "move": 0,
        "origin": 0, "target": 1, "cells": [1, 2], "terms": None, "subscriptions": 7, "bytes": 700,
        "expected_gain": 0.25, "load_before": before, "load_after": after, "decided_at": at(50),
    }  # fmt: skip


@pytest.fixture(scope="module")
def home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Two plans, two batches, a pending file, a quarantined one, a sink that is down; hostile texts everywhere."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("site") / "home")
    add_plan(home, halves(2))
    asked = add_file(home, "requests", [insertion(1, "s"), insertion(2, HOSTILE, keywords="free")])
    seen = add_file(home, "objects", [thing(1, "o", lon=0.5), thing(2, HOSTILE, text=f"free {HOSTILE}")])
    keys = [log_key(asked, 1), log_key(asked, 2)]
    found = [
        match_row(log_key(seen, 1), "o", 0, keys, worker=1),
        match_row(log_key(seen, 2), HOSTILE, 0, keys[1:], worker=1),
    ]
    add_batch(home, found, cpu_seconds=[1.0, 3.0])
    ledger_tables.append(
        home, names.MIGRATIONS, [migration(2, "gr", [1.0, 3.0], [2.0, 2.0]), migration(9, "gr", [1], [1])]
    )
    add_plan(home, halves(2), 2)
    add_batch(home, plan_version=2, cpu_seconds=[2.0, 2.0])
    rejects = [reject(2, "late", "ts", HOSTILE), reject(3, "unreadable_row", "", f'{{"object_id": "lost {HOSTILE}"}}')]
    add_file(home, "objects", [thing(1, "waits", 9)], rejects)
    quarantined = {
        "hold_id": 1, "kind": "objects", "path": f"/in/{HOSTILE}.csv", "copy": "c", "sha256": "f", "bytes": 1,
        "options": "{}", "head": [], "reasons": [f"null share of {HOSTILE}"], "status": "held", "written_at": at(1),
    }  # fmt: skip
    ledger_tables.append(home, names.QUARANTINE, [quarantined])
    add_sinks(home, "alerts")
    save_progress(home, "alerts", SinkProgress(1, 0, False, state="down"), Counts(4, 1, 2), HOSTILE)
    return home


def pages(home: Home) -> dict[str, str]:
    found = {
        "overview": airflow_views.overview_page(home.path),
        "subscription": airflow_views.subscription_page(home.path, HOSTILE),
        "object": airflow_views.object_page(home.path, HOSTILE),
        "explained": airflow_views.object_page(home.path, HOSTILE, HOSTILE),
        "nothing": airflow_views.object_page(home.path, "no " + HOSTILE),
    }
    assert [page.status for page in found.values()] == [200, 200, 200, 200, 404]
    return {name: page.text for name, page in found.items()}


def test_the_overview_shows_lag_balance_migrations_rejects_quarantine_and_delivery(home: Home) -> None:
    overview = read_overview(home.path)
    assert overview.problems == []
    assert overview.balance == {1: 3.0, 2: 1.0}
    assert overview.lag["objects"] == {"rows": 1, "files": 1, "oldest_ts": "2026-03-01T00:09:00Z"}
    assert [rows[0]["plan_version"] for rows in overview.migrations] == [2]  # plan 9 never came into force
    assert {row["object_id"]: row["pairs"] for row in overview.matches} == {"o": 2, HOSTILE: 1}
    text = Elements(airflow_views.overview_page(home.path).text).text
    for part in ("Objects waiting", "3 → 1", "null share of", "down", "by 2 batches", "unreadable row", "Plan 2 by"):
        assert part in text, part
    assert "Batch Imbalance 2 1 1 3" in " ".join(text.split()) and "objects/s" in text


def test_no_text_becomes_markup(home: Home) -> None:
    for name, page in pages(home).items():
        elements = Elements(page)
        assert [tag for tag, _ in elements.tags].count("script") == 1, name
        assert not elements.all("b"), name
        assert not any(attribute.startswith("on") for _, attrs in elements.tags for attribute in attrs), name
        assert "alert('x')" in elements.text, name


def test_nothing_is_loaded_and_forms_go_to_the_plugin(home: Home) -> None:
    for name, page in pages(home).items():
        elements = Elements(page)
        loading = {"src", "srcset", "data", "poster", "xlink:href", "background"}
        assert not [a for _, attrs in elements.tags for a in attrs if a in loading], name
        assert not {tag for tag, _ in elements.tags} & {"link", "iframe", "object", "embed", "img", "base"}, name
        assert {form["action"] for form in elements.all("form")} == {"subscription", "object"}, name
        assert {form["method"] for form in elements.all("form")} == {"get"}, name
        targets = [str(link["href"]) for link in elements.all("a")]
        assert all(re.match(r"#|\./$|questions$|(subscription|object)\?", target) for target in targets), name
        policy = next(m["content"] for m in elements.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
        assert policy is not None and "default-src 'none'" in policy and "form-action 'self'" in policy, name


def test_the_page_can_be_used_by_keyboard(home: Home) -> None:
    for name, page in pages(home).items():
        elements = Elements(page)
        first = elements.all("a")[0]
        ids = [attrs["id"] for _, attrs in elements.tags if attrs.get("id")]
        assert (first["class"], first["href"]) == ("skip", "#content") and "content" in ids, name
        assert len(ids) == len(set(ids)), name
        labels = {label.get("for") for label in elements.all("label")}
        assert {box["id"] for box in elements.all("input") if box["type"] == "text"} <= labels, name
        scrolled = [
            attrs for _, attrs in elements.tags if set((attrs.get("class") or "").split()) & {"scroll", "drawn"}
        ]
        assert all(attrs["tabindex"] == "0" and attrs["aria-label"] for attrs in scrolled), name


def test_links_lead_to_what_they_name(home: Home) -> None:
    text = airflow_views.subscription_page(home.path, "s").text
    assert 'href="object?id=o&amp;subscription=s&amp;owner="' in text
    explained = Elements(airflow_views.object_page(home.path, "o", "s").text).text
    assert "matched the object satisfies the subscription; batch 1 wrote the pair." in explained
    assert "word free of the clause" in explained and "worker 1, unit 1 of plan 1" in explained


def test_an_unknown_id_is_404_with_what_is_known(home: Home) -> None:
    unknown = airflow_views.object_page(home.path, "lost")
    assert unknown.status == 404 and "No object “lost” was accepted" in Elements(unknown.text).text
    assert "unreadable_row" in unknown.text
    assert airflow_views.subscription_page(home.path, "S").status == 404
    half = airflow_views.object_page(home.path, "o", "nobody")
    assert half.status == 404 and "no subscription 'nobody' was accepted" in Elements(half.text).text


def test_no_home_and_a_new_home(empty_home: Path, tmp_path: Path) -> None:
    missing = airflow_views.overview_page(str(tmp_path))
    assert missing.status == 404 and f"pststream init --home {tmp_path}" in Elements(missing.text).text
    assert (
        airflow_views.subscription_page(str(tmp_path), "s").status
        == airflow_views.object_page(str(tmp_path), "o").status
        == 404
    )
    new = airflow_views.overview_page(str(empty_home))
    assert new.status == 200 and "There is no plan yet" in Elements(new.text).text


def test_a_broken_table_is_named_and_the_rest_is_shown(home: Home, tmp_path: Path) -> None:
    broken = Home(tmp_path / "broken")
    shutil.copytree(home.path, broken.path)
    for name in (names.UNIT_LOADS, names.REJECTS, names.DELIVERIES):
        for file in Path(broken.table(name)).glob("*.parquet"):
            file.write_bytes(b"no parquet")
    page = airflow_views.overview_page(broken.path)
    text = Elements(page.text).text
    assert page.status == 200 and "Objects waiting" in text and "null share of" in text
    assert all(f"Table {name} cannot be read" in text for name in (names.UNIT_LOADS, names.REJECTS, names.DELIVERIES))


def test_a_table_that_vanishes_under_a_look_up_is_503(home: Home, tmp_path: Path) -> None:
    broken = Home(tmp_path / "broken")
    shutil.copytree(home.path, broken.path)
    for file in Path(broken.table(names.REQUESTS)).glob("*.parquet"):
        file.unlink()
    page = airflow_views.subscription_page(broken.path, "s")
    assert page.status == 503 and "Load the page again" in Elements(page.text).text


def test_a_page_explains_few_of_many_pairs_with_the_same_ids(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    add_file(hand_home, "requests", [insertion(n, "s", -n) for n in range(1, 61)])
    add_file(hand_home, "objects", [thing(n, "o", n) for n in range(1, 31)])
    explained: list[object] = []
    judge = explain_matches.MatchExplainer.explain
    monkeypatch.setattr(explain_matches.MatchExplainer, "explain", lambda *of: explained.append(of) or judge(*of))
    page = airflow_views.object_page(hand_home.path, "o", "s")
    assert page.status == 200 and "5 × 20 pairs" in page.text
    assert len(explained) == 100


POINT = {"lon": 1.0, "lat": 2.0, "k": 2}


@pytest.fixture(scope="module")
def standing_home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Answers of each kind, hostile texts and an erased object."""
    standing_home = copy_of(empty_home, tmp_path_factory.mktemp("standing") / "home")
    requests = [
        insertion(1, HOSTILE, kind="knn", **POINT),
        insertion(2, "best", kind="topk", alpha=0.5, distance_scale_m=1000.0, window_us=3_600_000_000, **POINT),
        insertion(3, "words", kind="frequent_terms", k=2, window_us=3_600_000_000, step_us=3_600_000_000),
        insertion(4, "empty", kind="knn", **POINT),
        insertion(5, "box"),
    ]
    add_file(standing_home, "requests", requests)
    text = f"free coffee {HOSTILE}"
    add_file(
        standing_home,
        "objects",
        [thing(1, "near", 1, lon=1.01, lat=2.01, text=text), thing(2, HOSTILE, 2, lon=1.0, lat=2.02)],
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
    add_answer_rows(standing_home, names.ANSWER_LOG, rows, part="change")
    add_batch(standing_home, stream_time=at(2))
    add_batch(standing_home, stream_time=at(125))
    return standing_home


def page(standing_home: Home, subscription_id: str) -> Elements:
    found = airflow_views.subscription_page(standing_home.path, subscription_id)
    assert found.status == 200
    return Elements(found.text)


def test_the_answer_of_knn_is_on_a_map_with_its_circle(standing_home: Home) -> None:
    elements = page(standing_home, HOSTILE)
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


def test_the_answer_of_topk_has_scores_and_no_circle(standing_home: Home) -> None:
    elements = page(standing_home, "best")
    assert "0.750000" in elements.text and "1 object, as of" in elements.text
    (region,) = (attrs["d"] for _, attrs in elements.tags if attrs.get("id") == "region")
    assert not region


def test_words_over_time(standing_home: Home) -> None:
    elements = page(standing_home, "words")
    text = " ".join(elements.text.split())
    assert "2 terms, report of 2026-03-01 02:00:00 UTC." in text and "Words over time" in text
    cells = [attrs["title"] for attrs in elements.all("td") if attrs.get("title")]
    assert cells[:2] == ["coffee, 2026-03-01 01:00:00 UTC: 60 objects", "coffee, 2026-03-01 02:00:00 UTC: 120 objects"]
    assert len(cells) == 4


def test_a_subscription_whose_answer_is_empty(standing_home: Home) -> None:
    text = page(standing_home, "empty").text
    assert "0 objects, as of" in text and "No batch has changed the answer." in text


def test_a_subscription_without_an_answer_has_matches(standing_home: Home) -> None:
    text = page(standing_home, "box").text
    assert "No match was found." in text and "Changes" not in text


def test_the_overview_leads_to_subscriptions_whose_answers_changed(standing_home: Home) -> None:
    elements = Elements(airflow_views.overview_page(standing_home.path).text)
    links = {str(link["href"]) for link in elements.all("a")}
    assert {f"subscription?id={one}&owner=" for one in ("best", "words")} <= links and "id=box" not in "".join(links)
    assert "frequent_terms" in elements.text and not elements.all("b")


def test_the_report_shows_answers_of_each_kind(standing_home: Home, tmp_path: Path) -> None:
    document = write_report(standing_home.path, tmp_path / "report.html")
    assert document["problems"] == []
    elements = Elements((tmp_path / "report.html").read_text("utf-8"))
    shown = [attrs["aria-label"] for attrs in elements.all("article")]
    assert shown == [f"Subscription {name}" for name in (HOSTILE, "empty", "best", "words")]


def test_no_text_of_an_answer_becomes_markup(standing_home: Home, tmp_path: Path) -> None:
    write_report(standing_home.path, tmp_path / "report.html")
    texts = [airflow_views.subscription_page(standing_home.path, one).text for one in (HOSTILE, "best", "words")]
    for text in [*texts, (tmp_path / "report.html").read_text("utf-8")]:
        elements = Elements(text)
        assert [tag for tag, _ in elements.tags].count("script") == 1
        assert not elements.all("b") and "alert('x')" in elements.text
        assert not any(attribute.startswith("on") for _, attrs in elements.tags for attribute in attrs)
        ids = [attrs["id"] for _, attrs in elements.tags if attrs.get("id")]
        assert len(ids) == len(set(ids))


AT = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
ROWS = [
    AnswerRow(1, HOSTILE, AT, 20.0, 0.5, lon=0.2, lat=0.3, text=f"free {HOSTILE}"),
    AnswerRow(2, "o", AT, 12e3, 0.25),
]
NEAREST = AnsweredQuestion("knn", [("Keywords", HOSTILE)], HOSTILE, None, (0.1, 0.2), ROWS, False, 0.5)
BOX = read_region({"bbox": [10, 20, 11, 22]})
TERMS = [AnswerRow(1, term=HOSTILE, count=4), AnswerRow(2, term="tea", count=1)]
FREQUENT = AnsweredQuestion("frequent_terms", [("Region", "box")], "", BOX, None, TERMS, True, 0.5)
PLACES = np.array([[0.0, 0.0], [2.0, 1.0]])


def test_the_form_has_each_field_of_each_kind() -> None:
    assert set(QUESTION_FIELDS) == {"kind", *TYPED_FIELDS}
    page = Elements(render_question("home", {}, PLACES))
    assert [option["value"] for option in page.all("option")] == list(QUESTION_KINDS)
    kinds = {
        name: str(row["data-kinds"]).split()
        for row, name in zip((p for p in page.all("p") if "data-kinds" in p), QUESTION_FIELDS[1:])
    }
    for kind in QUESTION_KINDS.values():
        assert {name for name, of in kinds.items() if kind.name in of} == {*kind.fields, "where", "as_of", "version"}
    labelled = {label.get("for") for label in page.all("label")}
    assert all(field["id"] in labelled for field in page.all("input") if field["type"] == "text")


FIELDS = {"kind": "knn", "keywords": HOSTILE}
PAGES: dict[str, Callable[[], str]] = {
    "form": lambda: render_question(HOSTILE, FIELDS, PLACES, problem=f"keywords: {HOSTILE}"),
    "without objects": lambda: render_question("home", {}, np.empty((0, 2))),
    "nearest": lambda: render_answer(HOSTILE, FIELDS, NEAREST, form=True),
    "stored": lambda: render_answer(HOSTILE, FIELDS, NEAREST, form=False),
    "terms": lambda: render_answer("home", {"kind": "frequent_terms"}, FREQUENT, form=True),
    "nothing": lambda: render_answer("home", {}, replace(NEAREST, rows=[], point=None), form=True),
}


@pytest.mark.parametrize("name", PAGES)
def test_no_text_becomes_markup_and_nothing_is_loaded(name: str) -> None:
    page = PAGES[name]()
    elements = Elements(page)
    assert [tag for tag, _ in elements.tags].count("script") == 1 and not elements.all("b")
    assert not any(attribute.startswith("on") for _, attributes in elements.tags for attribute in attributes)
    assert not {tag for tag, _ in elements.tags} & {"link", "iframe", "object", "embed", "img", "base"}
    policy = next(m["content"] for m in elements.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sent_to = "'none'" if name == "stored" else "'self'"
    assert f"script-src 'sha256-{digest}'" in str(policy) and f"form-action {sent_to}" in str(policy)
    assert [form["action"] for form in elements.all("form")] == ([] if name == "stored" else ["questions"])
    targets = [str(link["href"]) for link in elements.all("a")]
    assert all(re.match(r"#|\./$|questions$|object\?", target) for target in targets)


def test_each_object_has_a_dot_and_a_row() -> None:
    page = Elements(PAGES["nearest"]())
    dots = [path for path in page.all("path") if path.get("class") == "match"]
    assert [dot["data-rows"] for dot in dots] == ["0", "1"]
    assert [row["id"] for row in page.all("tr") if "id" in row] == ["pair-0", "pair-1"]
    assert all(dot["d"] for dot in dots)
    assert "20 m" in page.text and "12 km" in page.text and "0.500000" in page.text


def test_long_texts_are_cut_wherever_the_page_has_them() -> None:
    """The page of 500 objects with texts of a megabyte would be a gigabyte, which the API server keeps."""
    long = [replace(row, text="é" * 1_000_000) for row in ROWS]
    assert len(render_answer("home", {}, replace(NEAREST, rows=long), form=True)) < 2 * len(PAGES["nearest"]())
    words = [AnswerRow(1, term="é" * 1_000_000, count=4)]
    assert len(render_answer("home", {}, replace(FREQUENT, rows=words), form=True)) < 2 * len(PAGES["terms"]())


def test_the_map_shows_the_region_and_its_surroundings() -> None:
    section = prepare_answer(FREQUENT)
    view = section.map.projection
    assert view.west < 10 and view.east > 11 and view.south < 20 and view.north > 22
    assert section.map.region.count("L") == 3 and section.map.dots == []
    assert section.note.startswith("More than 2 terms") and [row.share for row in section.rows] == [1, 0.25]


def test_empty_and_other_parameters_are_left_out_and_long_ones_refused() -> None:
    given = {"kind": "knn", "k": " 3 ", "bbox": "", "as_of": " ", "home": "/etc"}
    assert question_fields(given) == {"kind": "knn", "k": "3"}
    with pytest.raises(ValueError, match="keywords has more than"):
        question_fields({"keywords": "a" * (LONGEST_VALUE + 1)})
    many = {"keywords": "é" * 30_000, "geometry": "x"}
    with pytest.raises(ValueError, match="the question has more than 100,000 bytes"):
        question_fields(many)


@pytest.mark.parametrize(
    ("text", "keywords", "marked"),
    [
        ("Free coffee, cheap cake", "coffee AND (free OR cheap)", ["Free", "coffee,", "cheap"]),
        ("or nothing AND", '"or" OR x', ["or"]),
        ("बारिश में गरम चाय", "चाय AND बारिश", ["बारिश", "चाय"]),
        ("STRASSE und Straße", "straße", ["STRASSE", "Straße"]),
        ("a <b> c", "b", ["<b>"]),
        ("", "x", []),
    ],
)
def test_words_are_marked(text: str, keywords: str, marked: list[str]) -> None:
    parts = mark_words(text, keywords)
    assert [part for part, hit in parts if hit] == marked
    assert "".join(part for part, _ in parts) == text
