"""The page of a question has the fields of each kind, escapes every text, loads nothing, and draws what was asked."""

import base64
import datetime as dt
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pststream.queries.kinds.registry import QUESTION_KINDS
from pststream.queries.shapes.registry import read_region
from pststream.reports.pages.airflow_views import question_fields
from pststream.reports.pages.answer_section import AnsweredQuestion, AnswerRow, prepare_answer
from pststream.reports.pages.question_page import LONGEST_VALUE, QUESTION_FIELDS, render_answer, render_question
from pststream.search.ask import TYPED_FIELDS
from tests.unit.reports.pages.test_airflow_views import HOSTILE, Elements

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
        assert {name for name, of in kinds.items() if kind.name in of} == {*kind.fields, "as_of", "version"}
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
