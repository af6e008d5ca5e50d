"""The words that a subscription names are marked in a text, and the text stays whole."""

import pytest

from pststream.reports.pages.answer_section import mark_words


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
