"""The report is self-contained, escapes hostile texts, names what is missing, and shows the plan of `topk` in force."""

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.reports.commands.plans import show_topk_plan
from pststream.reports.pages.answer_section import AnsweredQuestion, AnswerRow
from pststream.reports.pages.overview_page import read_overview, render_overview
from pststream.reports.pages.report_page import read_report, render_report, write_report
from pststream.reports.reading.samples import PAIRS
from pststream.state.home import Home
from pststream.state.tables import TABLES
from tests.damage import delete_rows
from tests.topk_plans import add_topk_loads, add_topk_plan, topk_row
from tests.unit.reports.commands.homes import add_plan, copy_of, halves
from tests.unit.reports.elements import Elements
from tests.unit.reports.page_home import AT, HOSTILE, WORKERS, write_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_home(tmp_path_factory.mktemp("page") / "home")


@pytest.fixture(scope="module")
def page(home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("out") / "report.html"
    document = write_report(home, out)
    assert document["problems"] == []
    assert document["bytes"] == out.stat().st_size
    return out.read_text("utf-8")


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    return Elements(page)


def test_totals_are_those_of_the_ledgers(home: Path, tmp_path: Path) -> None:
    document = write_report(home, tmp_path / "new" / "r.html")
    assert (document["objects"], document["rejected"], document["batches"]) == (401, 7, 3)
    assert (document["subscriptions"], document["plan_version"]) == (62, 1)


def test_loads_nothing(page: str, elements: Elements) -> None:
    assert "http://" not in page and "https://" not in page
    loading = {"src", "href", "srcset", "data", "poster", "action", "xlink:href", "background"}
    found = [(name, v) for _, attrs in elements.tags for name, v in attrs.items() if name in loading]
    assert found == [("href", "#at-map")]
    assert not re.search(r"@import|url\((?!#)", page)
    assert not {tag for tag, _ in elements.tags} & {"link", "iframe", "object", "embed", "img", "base"}


def test_hostile_texts_stay_texts(page: str, elements: Elements) -> None:
    assert [tag for tag, _ in elements.tags].count("script") == 1
    assert not any(name.startswith("on") for _, attrs in elements.tags for name in attrs)
    assert "alert('text')" in "".join(elements.texts)
    assert "<script>alert" not in page and "<b>odd" not in page
    assert HOSTILE in "".join(elements.texts)  # as a rejected value


def test_only_its_own_script_may_run(elements: Elements) -> None:
    policy = next(a["content"] for tag, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "default-src 'none'" in policy and "script-src 'sha256-" in policy


def test_map_shows_leaves_workers_objects_and_matches(elements: Elements) -> None:
    leaves = elements.of("leaf")
    assert len(leaves) == 2 * WORKERS
    by_text = elements.of("by-text")
    tips = [leaf["data-tip"] or "" for leaf in leaves]
    assert len([leaf for leaf in leaves if leaf in by_text]) == 1
    assert any("by text" in tip and "coffee" in tip for tip in tips)
    assert all("Worker" in tip for tip in tips)
    dots = elements.of("match")
    assert dots and [dot["tabindex"] for dot in dots].count("0") == 1
    assert all(dot["role"] == "button" and dot["aria-label"] for dot in dots)
    assert len((elements.of("objects")[0]["d"] or "").split("M")) > 300


def test_each_match_row_has_marked_words_and_a_region(elements: Elements, page: str) -> None:
    rows = [attrs for tag, attrs in elements.tags if tag == "tr" and (attrs.get("id") or "").startswith("pair-")]
    assert 0 < len(rows) <= PAIRS
    regions = {attrs["id"]: attrs["d"] or "" for _, attrs in elements.tags if (attrs.get("id") or "")[:7] == "region-"}
    assert {row["data-region"] for row in rows} == set(regions)
    assert all(path.startswith("M") for path in regions.values())
    assert len(set(regions.values())) == len(regions) < len(rows)
    assert page.count("<mark>") >= len(rows)
    shown = {number for dot in elements.of("match") for number in (dot["data-rows"] or "").split()}
    assert shown <= {(row["id"] or "").removeprefix("pair-") for row in rows}


def test_balance_batches_and_rejects_are_there(elements: Elements) -> None:
    text = " ".join(elements.texts)
    for worker in range(WORKERS):
        assert f"Worker {worker}" in text
    for reason in ("late", "out of range", "unreadable time", "unreadable expression"):
        assert reason in elements.texts
    assert "Correlation of predicted load and CPU time" in text
    assert "coffee AND (free OR" in elements.texts


def test_empty_home_says_so(tmp_path: Path) -> None:
    document = write_report(tmp_path / "nothing", tmp_path / "r.html")
    assert document["objects"] == 0 and document["plan_version"] is None and document["problems"] == []
    text = " ".join(Elements((tmp_path / "r.html").read_text("utf-8")).texts)
    assert "contains no objects, subscriptions or plans yet" in text
    assert "No batch is done yet" in text and "There is no plan yet" in text


def test_home_with_empty_tables_says_so(tmp_path: Path) -> None:
    for table in TABLES.values():
        empty = table.schema.empty_table()
        write_deltalake(tmp_path / "tables" / table.name, empty, partition_by=list(table.partitions) or None)
    document = write_report(tmp_path, tmp_path / "r.html")
    assert document["problems"] == []
    assert "contains no objects" in (tmp_path / "r.html").read_text("utf-8")


def test_broken_table_is_named_and_the_rest_shown(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(home, broken)
    for file in (broken / "tables" / names.REJECTS).glob("*.parquet"):
        file.write_bytes(b"no parquet")
    shutil.rmtree(broken / "tables" / names.UNIT_LOADS)
    document = write_report(broken, tmp_path / "r.html")
    assert document["matches"]
    assert [problem for problem in document["problems"] if "rejects" in problem]  # type: ignore[attr-defined]
    assert "Table rejects cannot be read" in (tmp_path / "r.html").read_text("utf-8")


def test_plan_with_wrong_units_is_named(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(home, broken)
    shutil.rmtree(broken / "tables" / names.PLAN_UNITS)
    row = {"plan_version": 1, "unit": 0, "worker": 0, "leaf": 0, "cell_runs": [0, 1], "terms": None,
           "takes_other_terms": True, "load": 1.0, "objects": 1.0, "subscriptions": 1.0}  # fmt: skip
    units = pa.Table.from_pylist([row], schema=TABLES[names.PLAN_UNITS].schema)
    write_deltalake(broken / "tables" / names.PLAN_UNITS, units)
    document = write_report(broken, tmp_path / "r.html")
    assert document["plan_version"] is None and document["problems"]


def test_retracted_pairs_are_not_shown(home: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(home, changed)
    before = read_report(str(changed)).matches
    path = str(changed / "tables" / names.MATCHES)
    rows = [
        {"object_key": (1 << names.ROW_BITS) + i, "object_id": "", "ts": before[0].ts, "batch_id": 9, "retracted": True,
         "subscription_keys": [(2 << names.ROW_BITS) + s for s in range(100)], "worker": -1, "plan_version": 1}
        for i in range(500)
    ]  # fmt: skip
    write_deltalake(path, pa.Table.from_pylist(rows, schema=TABLES[names.MATCHES].schema), mode="append")
    assert before and read_report(str(changed)).matches == []


def test_questions_are_drawn_with_their_answers(home: Path, tmp_path: Path) -> None:
    rows = [AnswerRow(n, f"o{n}", AT, 100.0 * n, lon=n / 10, lat=0.0, text=HOSTILE) for n in range(1, 9)]
    nearest = AnsweredQuestion(
        "knn", [("Keywords", HOSTILE)], "coffee", None, (0.0, 0.0), rows, False, 0.1, "Nearest <b>"
    )
    terms = [AnswerRow(1, term="tea", count=3)]
    answers = [nearest, AnsweredQuestion("frequent_terms", [], "", None, None, terms, True, 0.1, "Words")]
    write_report(home, tmp_path / "r.html", answers)
    page = (tmp_path / "r.html").read_text("utf-8")
    elements = Elements(page)
    maps = elements.of("small")
    assert len(maps) == 2 and all(map_["role"] == "img" for map_ in maps)
    dots = elements.of("answer-dot")
    assert [str(path["d"]).count("h0") for path in dots] == [8, 0], "the map has all objects, the table the first ones"
    assert "8 objects, the first 5 are listed." in page and "More than 1 term" in page and "Nearest &lt;b&gt;" in page
    assert [tag for tag, _ in elements.tags].count("script") == 1
    assert elements.of("answers") and not Elements(_page_without_answers(home, tmp_path)).of("answers")


def _page_without_answers(home: Path, folder: Path) -> str:
    write_report(home, folder / "r.html")
    return (folder / "r.html").read_text("utf-8")


@pytest.fixture(scope="module")
def topk_home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a plan of `topk` of three parts of the space, each divided into two units, and two batches."""
    topk_home = copy_of(empty_home, tmp_path_factory.mktemp("topk") / "home")
    add_plan(topk_home, halves())
    levels = {"first": 3, "second": 2, "space_cuts": [50.0, -10.0], "unit_loads": [4.0, 1.0, 2.0, 1.0, 1.0, 1.0]}
    add_topk_plan(topk_home, topk_row("spatial_first", 6) | levels)
    add_topk_loads(topk_home, 1, 2, [(7, 30, 0.5)] * 6)
    add_topk_loads(topk_home, 2, 2, [(1000 * unit, 20 + unit, 0.25) for unit in range(5)])
    add_topk_loads(topk_home, 2, 1, [(9, 9, 9.0)])
    return topk_home


def test_measured_loads_are_added_up_and_stored_subscriptions_are_those_of_the_last_batch(topk_home: Home) -> None:
    shown = show_topk_plan(topk_home)
    assert (shown["measured_batches"], shown["measured_imbalance"]) == (2, 1.5)
    assert shown["unit_seconds"] == [0.75] * 5 + [0.5]
    assert shown["unit_objects"] == [7, 1007, 2007, 3007, 4007, 7]
    assert shown["unit_subscriptions"] == [20, 21, 22, 23, 24, 30]


def test_a_unit_without_load_makes_the_imbalance_null(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    add_topk_plan(hand_home, topk_row("keyword_first", 4) | {"unit_loads": [1.0, 2.0, 0.0, 1.0]})
    assert show_topk_plan(hand_home)["imbalance"] is None
    assert "Predicted imbalance (greatest load over the least): infinite" in render_report(read_report(hand_home.path))


def test_pages_have_a_row_for_each_unit_and_an_area_for_each_part_of_the_space(topk_home: Home) -> None:
    report, overview = read_report(topk_home.path), read_overview(topk_home.path)
    assert report.problems == overview.problems == []
    for page in (render_report(report), render_overview(overview)):
        text = " ".join(" ".join(Elements(page).texts).split())
        assert "Unit 0 40.0 % 0.75 7 20 Unit 1 10.0 % 0.75 1,007 21" in text and "Unit 6" not in text
        assert "Plan 2 by spatial_first, 6 units: 3 parts of the space, each divided by words into 2." in text
        assert "Measured imbalance, of CPU time in 2 batches: 1.5." in text
        tips = [leaf["data-tip"] or "" for leaf in Elements(page).of("leaf")]
        parts = [tip.splitlines() for tip in tips if "topk" in tip]
        assert parts[0] == ["Plan of topk, units 0 to 1", "Predicted: 50.0\u202f% of the load"] and len(parts) == 3
        assert "parts of the space of the plan of topk" in text and 'data-layer="topk-parts"' in page


def test_a_plan_that_divides_words_first_has_no_parts_on_the_map(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    assert "Plan of topk" not in render_report(read_report(hand_home.path))
    add_topk_plan(hand_home, topk_row("keyword_first", 4))
    page = render_report(read_report(hand_home.path))
    assert "Unit 3" in page and "topk-part" not in "".join(str(tag) for tag in Elements(page).tags)
    delete_rows(hand_home, names.TOPK_PLANS, "plan_version = 2")
    report = read_report(hand_home.path)
    assert "plan of topk of version 2 is missing" in report.problems[0]
    assert "Plan of topk" not in render_report(report)
    with pytest.raises(UsageError, match="is missing"):
        show_topk_plan(hand_home)
