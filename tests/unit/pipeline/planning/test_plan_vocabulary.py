"""Terms of a vocabulary get the words of the newest texts."""

import pyarrow as pa
import pytest

from pststream.pipeline.planning import plan
from pststream.pipeline.planning.plan import fill_words
from pststream.queries.text.tokenizer import term_id
from pststream.state.home import Home
from tests.unit.reports.commands.homes import add_file, thing


def vocabulary(*terms: str) -> pa.Table:
    return pa.table({"term_id": [term_id(t) for t in terms], "term": pa.nulls(len(terms), pa.string())})


def test_words_are_those_of_the_texts(hand_home: Home) -> None:
    add_file(hand_home, "objects", [thing(1, "a", text="Grüner Tee"), thing(2, "b", text=""), thing(3, "c", text="x")])
    found = fill_words(hand_home, vocabulary("tee", "grüner", "kaffee"))
    assert found.column("term").to_pylist() == ["tee", "grüner", None]
    assert found.schema == vocabulary("tee").schema


@pytest.mark.parametrize(("name", "most"), [("MAX_TEXTS", 1), ("MAX_BYTES", 4)])
def test_few_texts_are_read_the_newest_first(
    hand_home: Home, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    add_file(hand_home, "objects", [thing(1, "a", text="old")])
    add_file(hand_home, "objects", [thing(1, "b", text="new")])
    monkeypatch.setattr(plan, name, most)
    assert fill_words(hand_home, vocabulary("old", "new")).column("term").to_pylist() == [None, "new"]


def test_no_texts(hand_home: Home) -> None:
    assert fill_words(hand_home, vocabulary("old")).column("term").to_pylist() == [None]
