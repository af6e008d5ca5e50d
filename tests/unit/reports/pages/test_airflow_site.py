"""The page in Airflow and its two look-ups: what they show of a home, and what they say where there is nothing."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pststream import names
from pststream.reports.commands import lookups
from pststream.reports.commands.lookups import LATEST, object_file, subscription_file
from pststream.reports.pages import airflow_site
from pststream.reports.pages.airflow_data import read_live
from pststream.reports.reading.table_reader import Reader
from pststream.state import ledger_tables
from pststream.state.deliveries import Counts, SinkProgress, save_progress
from pststream.state.home import Home
from pststream.state.ledger import key
from tests.matched_homes import add_matched_batch, add_subscriptions, taken_back_of
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

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def migration(version: int, reason: str, before: list[float], after: list[float]) -> dict[str, object]:
    return {
        "plan_version": version, "plan_version_before": version - 1, "kind": "local", "reason": reason, "move": 0,
        "origin": 0, "target": 1, "cells": [1, 2], "terms": None, "subscriptions": 7, "bytes": 700,
        "expected_gain": 0.25, "load_before": before, "load_after": after, "at": at(50),
    }  # fmt: skip


@pytest.fixture(scope="module")
def home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Two plans, two batches, a waiting file, a held one, a sink that is down; hostile texts wherever one may stand."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("site") / "home")
    add_plan(home, halves(2))
    asked = add_file(home, "requests", [insertion(1, "s"), insertion(2, HOSTILE, keywords="free")])
    seen = add_file(home, "objects", [thing(1, "o", lon=0.5), thing(2, HOSTILE, text=f"free {HOSTILE}")])
    keys = [key(asked, 1), key(asked, 2)]
    found = [match_row(key(seen, 1), "o", 0, keys, worker=1), match_row(key(seen, 2), HOSTILE, 0, keys[1:], worker=1)]
    add_batch(home, found, cpu_seconds=[1.0, 3.0])
    ledger_tables.append(
        home, names.MIGRATIONS, [migration(2, "gr", [1.0, 3.0], [2.0, 2.0]), migration(9, "gr", [1], [1])]
    )
    add_plan(home, halves(2), 2)
    add_batch(home, plan_version=2, cpu_seconds=[2.0, 2.0])
    rejects = [reject(2, "late", "ts", HOSTILE), reject(3, "unreadable_row", "", f'{{"object_id": "lost {HOSTILE}"}}')]
    add_file(home, "objects", [thing(1, "waits", 9)], rejects)
    held = {
        "hold_id": 1, "kind": "objects", "path": f"/in/{HOSTILE}.csv", "copy": "c", "sha256": "f", "bytes": 1,
        "options": "{}", "reasons": [f"null share of {HOSTILE}"], "status": "held", "at": at(1),
    }  # fmt: skip
    ledger_tables.append(home, names.QUARANTINE, [held])
    add_sinks(home, "alerts")
    save_progress(home, "alerts", SinkProgress(1, 0, False, state="down"), Counts(4, 1, 2), HOSTILE)
    return home


def pages(home: Home) -> dict[str, str]:
    found = {
        "overview": airflow_site.overview(home.path),
        "subscription": airflow_site.subscription(home.path, HOSTILE),
        "object": airflow_site.thing(home.path, HOSTILE),
        "explained": airflow_site.thing(home.path, HOSTILE, HOSTILE),
        "nothing": airflow_site.thing(home.path, "no " + HOSTILE),
    }
    assert [page.status for page in found.values()] == [200, 200, 200, 200, 404]
    return {name: page.text for name, page in found.items()}


def test_the_page_tells_lag_balance_migrations_rejects_quarantine_and_delivery(home: Home) -> None:
    live = read_live(home.path)
    assert live.problems == []
    assert live.balance == {1: 1.5, 2: 1.0}
    assert live.lag["objects"] == {"rows": 1, "files": 1, "oldest_ts": "2026-03-01T00:09:00Z"}
    assert [rows[0]["plan_version"] for rows in live.migrations] == [2]  # plan 9 was never taken up
    assert {row["object_id"]: row["pairs"] for row in live.matches} == {"o": 2, HOSTILE: 1}
    text = Elements(airflow_site.overview(home.path).text).text
    for told in ("Objects waiting", "1.5 → 1", "null share of", "down", "by 2 batches", "unreadable row", "Plan 2 by"):
        assert told in text, told
    assert "BatchGreatest over mean21.0011.50" in text and "objects/s" in text


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
        assert all(re.match(r"#|\./$|(subscription|object)\?", target) for target in targets), name
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
    text = airflow_site.subscription(home.path, "s").text
    assert 'href="object?id=o&amp;subscription=s"' in text
    explained = Elements(airflow_site.thing(home.path, "o", "s").text).text
    assert "matched the object satisfies the subscription; batch 1 wrote the pair." in explained
    assert "word free of the clause" in explained and "worker 1, unit 1 of plan 1" in explained


def test_an_unknown_id_is_404_with_what_is_known(home: Home) -> None:
    unknown = airflow_site.thing(home.path, "lost")
    assert unknown.status == 404 and "No object “lost” was accepted" in Elements(unknown.text).text
    assert "unreadable_row" in unknown.text
    assert airflow_site.subscription(home.path, "S").status == 404
    half = airflow_site.thing(home.path, "o", "nobody")
    assert half.status == 404 and "no subscription 'nobody' was accepted" in Elements(half.text).text


def test_no_home_and_a_new_home(empty_home: Path, tmp_path: Path) -> None:
    missing = airflow_site.overview(str(tmp_path))
    assert missing.status == 404 and f"pststream init --home {tmp_path}" in Elements(missing.text).text
    assert airflow_site.subscription(str(tmp_path), "s").status == airflow_site.thing(str(tmp_path), "o").status == 404
    new = airflow_site.overview(str(empty_home))
    assert new.status == 200 and "No plan yet" in Elements(new.text).text


def test_a_broken_table_is_named_and_the_rest_is_told(home: Home, tmp_path: Path) -> None:
    broken = Home(tmp_path / "broken")
    shutil.copytree(home.path, broken.path)
    for name in (names.UNIT_LOADS, names.REJECTS, names.DELIVERIES):
        for file in Path(broken.table(name)).glob("*.parquet"):
            file.write_bytes(b"no parquet")
    page = airflow_site.overview(broken.path)
    text = Elements(page.text).text
    assert page.status == 200 and "Objects waiting" in text and "null share of" in text
    assert all(f"Table {name} cannot be read" in text for name in (names.UNIT_LOADS, names.REJECTS, names.DELIVERIES))


def test_a_table_that_vanishes_under_a_look_up_is_503(home: Home, tmp_path: Path) -> None:
    broken = Home(tmp_path / "broken")
    shutil.copytree(home.path, broken.path)
    for file in Path(broken.table(names.REQUESTS)).glob("*.parquet"):
        file.unlink()
    page = airflow_site.subscription(broken.path, "s")
    assert page.status == 503 and "Load the page again" in Elements(page.text).text


@pytest.mark.parametrize("most", [lookups.MOST_FOUND, 1])
def test_the_latest_pairs_that_hold_as_a_slow_reader_finds_them(
    empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Over several batches with pairs that were taken back, and an unfinished batch that counts for nothing."""
    home = copy_of(empty_home, tmp_path / "home")
    keys = add_subscriptions(home, 6)
    rows = add_matched_batch(home, keys, 30, seed=1)
    gone = taken_back_of(rows, keys[2])[:5]
    rows += add_matched_batch(home, keys, 30, seed=2, minutes=5, taken_back=gone)
    add_batch(home, [match_row(key(9, 1), "ghost", 0, keys)], done=False)
    lost = {row["object_id"] for row in gone}
    for place, subscription in enumerate(keys, 1):
        objects = {row["object_id"] for row in rows if subscription in row["subscription_keys"]}
        objects -= lost if subscription == keys[2] else set()
        found = subscription_file(Reader(home), f"s{place}")
        assert {met.other for met in found.met} <= objects
        assert len(found.met) == min(len(objects), LATEST)
        assert found.whole
    for row in rows[::7]:
        asked = {
            f"s{keys.index(k) + 1}" for r in rows if r["object_id"] == row["object_id"] for k in r["subscription_keys"]
        }
        asked -= {"s3"} if row["object_id"] in lost else set()
        with monkeypatch.context() as patch:
            patch.setattr(lookups, "MOST_FOUND", most)
            found_object = object_file(Reader(home), row["object_id"])
        assert {met.other for met in found_object.met} == asked or (most == 1 and len(found_object.met) <= 1)
        assert found_object.pairs == len(asked)


def test_the_course_of_many_batches_is_cut_and_the_totals_are_not(hand_home: Home) -> None:
    for _ in range(3):
        add_batch(hand_home)
    done = next(row for row in ledger_tables.read(hand_home, names.BATCHES).to_pylist() if row["status"] == "done")
    more = [{**done, "batch_id": number, "seconds": json.dumps({"match": 1.0})} for number in range(4, 104)]
    ledger_tables.append(hand_home, names.BATCHES, more)
    course = read_live(hand_home.path).course
    assert [batch.batch_id for batch in course.batches] == list(range(44, 104))
    assert course.totals.batches == 103
