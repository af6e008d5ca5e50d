"""The planner of the first plan and of the command `plan`, and the words of the terms of a vocabulary."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from pststream.base import names
from pststream.pipeline.planning import plan
from pststream.pipeline.planning.plan import fill_words
from pststream.queries.text.tokenizer import term_id
from pststream.state.home import Home
from tests.commands import new_home
from tests.unit.reports.commands.homes import add_file, thing


@pytest.mark.parametrize(("chosen", "first"), [({}, names.FIRST_PLANNER), ({"planner": "uniform"}, "uniform")])
def test_the_first_batch_does_not_wait_for_a_choice(tmp_path: Path, chosen: dict[str, str], first: str) -> None:
    home, things = new_home(tmp_path / "home", engine="local", **chosen), tmp_path / "things.jsonl"
    rows = [{"object_id": str(n), "ts": "2026-01-01", "lon": n, "lat": 0, "text": "tea"} for n in range(5)]
    things.write_text("\n".join(map(json.dumps, rows)))
    home.ingest("objects", [things])
    home.match()
    assert home.run("plans", "list")["plans"][0]["planner"] == first


@pytest.mark.slow
def test_the_command_chooses_by_default(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local")
    made = home.run("plan", "--workers", "2")
    assert made["planner"] == names.AUTO and made["choice"]["planner"] == names.FIRST_PLANNER, "all are equal"


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
