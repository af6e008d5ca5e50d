"""One question is answered for a page: bounded rows with the places and texts of their objects, and facts in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import ask as ask_job
from pststream.api import OpenedHome
from pststream.base.errors import UsageError
from pststream.search import ask
from pststream.search.ask import answer_for_page, record_of_texts
from pststream.settings import Settings
from pststream.state.home import Home
from tests.unit.reports.commands.homes import add_file, copy_of, thing

HOSTILE = "\"><script>alert('x')</script><b> coffee"
QUESTIONS: list[dict[str, str]] = [
    {"kind": "range", "bbox": "-1,-1,1,1", "keywords": "coffee"},
    {"kind": "range", "circle": "0.01,0,5000", "window": "2m"},
    {"kind": "range", "geometry": '{"type": "Polygon", "coordinates": [[[-1,-1],[1,-1],[1,1],[-1,-1]]]}', "limit": "2"},
    {"kind": "knn", "point": "0.02,0", "k": "2", "as_of": "2026-03-01T00:02:00Z", "version": "1"},
    {"kind": "knn", "point": "0,0", "k": "9", "window": "objects=2"},
    {"kind": "topk", "point": "0,0", "k": "3", "keywords": "coffee tea", "alpha": "0.5", "distance_scale_m": "5000"},
    {"kind": "frequent_terms", "bbox": "-1,-1,1,1", "k": "3"},
]


@pytest.fixture(scope="module")
def home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with two files of objects; the second one is earlier."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("answered") / "home")
    texts = enumerate(("free coffee", HOSTILE, "kaffe på Söder, tea"), start=1)
    add_file(home, "objects", [thing(row, f"o{row}", row, lon=row / 100, text=text) for row, text in texts])
    add_file(home, "objects", [thing(1, "late", 0.5, lon=0.005, text="late tea")])
    return home


def typed(texts: dict[str, str]) -> dict[str, Any]:
    return record_of_texts(texts, lambda field: field)


@pytest.mark.parametrize("texts", QUESTIONS, ids=lambda texts: f"{texts['kind']}-{'-'.join(list(texts)[1:])}")
def test_the_rows_are_those_of_ask_with_places_and_texts(home: Home, texts: dict[str, str]) -> None:
    answered = answer_for_page(home, Settings(), typed(texts))
    rows = OpenedHome(home.path).ask([typed(texts)]).to_pylist()
    assert rows and not answered.more
    names = ("rank", "object_id", "ts", "distance_m", "score", "term", "count")
    assert [[getattr(row, name) for name in names] for row in answered.rows] == [
        [row[name] for name in names] for row in rows
    ]
    stored = {row["object_id"]: row for row in OpenedHome(home.path).objects().to_pylist()}
    for row in answered.rows:
        if row.object_id is not None:
            expected = stored[row.object_id]
            assert (row.lon, row.lat, row.text) == (expected["lon"], expected["lat"], expected["text"])
    facts = dict(answered.facts)
    assert ("Term statistics" in facts) == (texts["kind"] == "topk")
    assert facts["Kind"] == texts["kind"]
    assert ("Region" in facts) != ("Point" in facts)
    assert ("Window" in facts) == ("window" in texts) and ("Version" in facts) == ("version" in texts)


@pytest.mark.parametrize("texts", [QUESTIONS[0] | {"limit": "3"}, QUESTIONS[2], QUESTIONS[5], QUESTIONS[6]])
def test_at_most_so_many_rows_are_read(home: Home, texts: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer_for_page(home, Settings(), typed(texts))
    monkeypatch.setattr(ask, "MAX_ROWS", 1)
    answered = answer_for_page(home, Settings(), typed(texts))
    assert answered.more and list(answered.rows) == list(whole.rows[:1])
    assert dict(answered.facts) == dict(whole.facts)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"kind": "nearest"}, "kind: unknown_kind"),
        ({"kind": "knn", "point": "0,0"}, "k: missing"),
        ({"kind": "knn", "point": "0,0", "k": "0"}, "k: out_of_range"),
        ({"kind": "knn", "point": "0,0,0", "k": "1"}, "point 0,0,0: 2 numbers separated by commas are expected"),
        ({"kind": "topk", "point": "0,0", "k": "1", "keywords": "a", "alpha": "x"}, "alpha x: a number is expected"),
        ({"kind": "range"}, "bbox: missing"),
        ({"kind": "range", "bbox": "0,0,1,1", "circle": "0,0,1"}, "bbox: unreadable_region"),
        ({"kind": "range", "bbox": "0,0,1,1", "k": "3"}, "k: field_of_another_kind"),
        ({"kind": "range", "bbox": "0,0,1,1", "version": "77"}, "version 77"),
    ],
)
def test_a_bad_question_is_refused_with_its_field(home: Home, texts: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        answer_for_page(home, Settings(), typed(texts))


def test_the_job_writes_a_page_and_counts(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, result = tmp_path / "page.html", tmp_path / "result.json"
    arguments = [
        f"--home={home.path}",
        f"--question={json.dumps(QUESTIONS[0])}",
        f"--result={result}",
        f"--page={page}",
    ]
    assert ask_job.main(arguments) == 0
    document = json.loads(result.read_text("utf-8"))["result"]
    assert {name: document[name] for name in ("kind", "rows", "more")} == {"kind": "range", "rows": 2, "more": False}
    assert "o1" in capsys.readouterr().err
    text = page.read_text("utf-8")
    assert "2 objects" in text and "<form" not in text and "<script>alert" not in text and "object?id=" not in text
    assert ask_job.main([*arguments, "--form"]) == 0
    assert "o1" not in capsys.readouterr().err, "the log of a server has no answers"
    text = page.read_text("utf-8")
    assert '<form class="question"' in text and 'value="-1,-1,1,1"' in text and "object?id=o1" in text
    assert ask_job.main([arguments[0], "--question={}", f"--result={result}"]) == 2
    assert "bbox: missing" in json.loads(result.read_text("utf-8"))["error"]
