"""The pages in Airflow show a home, escape every text, and say what is missing."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pststream.base import names
from pststream.reports.commands import explain_matches
from pststream.reports.pages import airflow_views
from pststream.reports.pages.overview_page import read_overview
from pststream.state import ledger_tables
from pststream.state.deliveries import Counts, SinkProgress, save_progress
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import (
    add_batch,
    add_file,
    add_plan,
    add_sinks,
    at,
    copy_of,
    halves,
    insertion,
    match_row,
    reject,
    thing,
)

HOSTILE = "\"><script>alert('x')</script><b>&"


class Elements(HTMLParser):
    """Start tags with their attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.text += " " if tag in ("th", "td") else ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


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
        "options": "{}", "reasons": [f"null share of {HOSTILE}"], "status": "held", "written_at": at(1),
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
    assert 'href="object?id=o&amp;subscription=s"' in text
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
