"""Templates escape every value, and a page has only characters that HTML allows."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.reports.pages import render_page as module
from pststream.reports.pages.render_page import render_page
from tests.unit.reports.elements import Elements

TEMPLATES = sorted((Path(module.__file__).parent / "templates").glob("*.html"))


def render(text: str) -> str:
    return render_page("message.html", title=text, message=text, advice=text, rejects=[])


@given(st.text())
def test_any_text_is_escaped(text: str) -> None:
    page, plain = ([tag for tag, _ in Elements(render(one)).tags] for one in (text, "x"))
    assert page == plain


def test_a_page_has_no_characters_that_html_does_not_allow() -> None:
    assert "a  b\n? c" in render("a\x00\x1bb\n\ud800\rc")


def test_only_style_and_script_are_not_escaped() -> None:
    raw = {
        (file.name, found) for file in TEMPLATES for found in re.findall(r"{{[^}]*\|\s*safe[^}]*}}", file.read_text())
    }
    assert raw == {("layout.html", "{{ style|safe }}"), ("layout.html", "{{ script|safe }}")}
    assert not any("autoescape" in file.read_text() for file in TEMPLATES)


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_values_in_attributes_are_quoted(file: Path) -> None:
    """An escaped value is safe between quotes only."""
    text = re.sub(r"{{.*?}}", "\0", re.sub(r"{%.*?%}|{#.*?#}", "", file.read_text("utf-8"), flags=re.DOTALL))
    assert not re.search(r"""<\w+(?:[^<>"\0]|"[^"]*")*\0""", text)


def test_forms_may_be_sent_to_the_server_of_the_page_alone() -> None:
    closed, opened = render("x"), render_page("message.html", True, title="", message="", advice="", rejects=[])
    assert "form-action &#39;none&#39;" in closed and "form-action &#39;self&#39;" in opened
