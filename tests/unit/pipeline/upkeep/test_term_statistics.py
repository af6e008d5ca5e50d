"""Term statistics: counts of documents, one event in the request log, weights of `topk`, kills, old versions."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pststream
from pststream.base import names
from pststream.queries.text.tokenizer import term_id
from pststream.state.home import Home as State
from pststream.tables.ledgers import Ledger
from pststream.tables.open_tables import open_table
from tests.commands import Home, new_home
from tests.oracles.questions import answer, logged
from tests.oracles.twin_expressions import words_of

TEXTS = ("free coffee", "Cheap TEA and coffee", "kaffe på Söder", "tea", "", "coffee coffee tea 北")
QUESTION: dict[str, Any] = {"kind": "topk", "point": {"lon": 0.0, "lat": 0.0}, "k": 5, "alpha": 0.3}


def objects_file(path: Path, texts: tuple[str, ...], first: int = 0) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("object_id", "ts", "lon", "lat", "text"))
        for number, text in enumerate(texts, start=first):
            writer.writerow((f"o{number}", f"2026-03-01T00:{number:02}:00Z", number / 100, 0, text))
    return path


def counts_of(texts: tuple[str, ...]) -> dict[int, int]:
    words = Counter(word for text in texts for word in set(words_of(text)))
    return {term_id(word): count for word, count in words.items()}


def stored(home: Home) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = (
        open_table(State(home.path).table(names.TERM_STATISTICS)).to_pyarrow_table().to_pylist()
    )
    return table


def expected_answer(texts: tuple[str, ...], keywords: str, counts: dict[str, int], total: int) -> list[tuple]:
    start = 1_772_323_200_000_000  # 2026-03-01
    objects = [
        logged(number, f"o{number}", start + number * 60_000_000, number / 100, 0.0, text)
        for number, text in enumerate(texts)
    ]
    return answer(objects, {**QUESTION, "keywords": keywords}, statistics=(total, counts))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = new_home(tmp_path / "home", engine="local")
    made.ingest("objects", [objects_file(tmp_path / "o.csv", TEXTS)])
    return made


def test_counts_are_in_force_from_one_position_on(home: Home, tmp_path: Path) -> None:
    before = Ledger(State(home.path)).next_file_seq
    tried = home.run("term-statistics", "--dry-run")
    assert (tried["version"], tried["objects"], tried["terms"], tried["dry_run"]) == (1, 6, 9, True)
    assert not stored(home) and Ledger(State(home.path)).next_file_seq == before
    made = home.run("term-statistics")
    assert {name: made[name] for name in ("version", "objects", "terms")} == {"version": 1, "objects": 6, "terms": 9}
    assert {row["term_id"]: row["documents"] for row in stored(home)} == counts_of(TEXTS)
    event = Ledger(State(home.path)).files[-1]
    assert (event["file_seq"], event["kind"], event["statistics_version"]) == (before, "requests", 1)
    status = home.run("status")
    assert {name: status["term_statistics"][name] for name in ("version", "objects", "terms")} == {
        "version": 1, "objects": 6, "terms": 9,
    }  # fmt: skip
    assert status["totals"]["files"] == {"objects": 1, "requests": 0}
    batches = home.match()["batches"]
    assert [(one["objects"], one["requests"]) for one in batches] == [(6, 0)]
    assert home.match()["batches"] == []
    assert home.run("check", "--all")["success"]


def test_questions_use_the_version_in_force(home: Home, tmp_path: Path) -> None:
    ask = pststream.open(str(home.path)).ask
    question = {**QUESTION, "keywords": "coffee tea söder"}
    assert set(ask([question])["term_statistics_version"].to_pylist()) == {0}
    home.run("term-statistics")
    words = dict(Counter(word for text in TEXTS for word in set(words_of(text))))
    answered = ask([question])
    expected = expected_answer(TEXTS, "coffee tea söder", words, len(TEXTS))
    assert answered["object_id"].to_pylist() == [row[0] for row in expected]
    assert answered["score"].to_pylist() == pytest.approx([row[3] for row in expected], rel=1e-6)
    assert set(answered["term_statistics_version"].to_pylist()) == {1}
    more = ("tea tea", "nowhere tea")
    home.ingest("objects", [objects_file(tmp_path / "more.csv", more, first=len(TEXTS))])
    both = (*TEXTS, *more)
    expected = expected_answer(both, "coffee tea söder nowhere", words, len(TEXTS))
    answered = ask([{**question, "keywords": "coffee tea söder nowhere"}])
    assert answered["object_id"].to_pylist() == [row[0] for row in expected], "words that no statistics know weigh most"
    home.run("term-statistics")
    assert set(ask([question])["term_statistics_version"].to_pylist()) == {2}


def test_withdrawn_objects_do_not_count_and_a_log_without_words_is_refused(home: Home, tmp_path: Path) -> None:
    home.run("withdraw", "--object-id", "o0")
    assert home.run("term-statistics")["objects"] == 5
    assert {row["term_id"]: row["documents"] for row in stored(home)} == counts_of(TEXTS[1:])
    empty = new_home(tmp_path / "empty", engine="local")
    empty.run("term-statistics", code=2)
    empty.ingest("objects", [objects_file(tmp_path / "none.csv", ("", "!"))])
    empty.run("term-statistics", code=2)
    assert not stored(empty) and Ledger(State(empty.path)).next_file_seq == 2


def test_maintain_drops_old_versions_where_no_subscription_is(home: Home, tmp_path: Path) -> None:
    """No batch needs to run there, so none says which versions are old."""
    for _ in range(3):
        home.run("term-statistics")
    home.run("maintain")
    assert {row["statistics_version"] for row in stored(home)} == {3}
    home.ingest("requests", [request_file(tmp_path / "r.jsonl")])
    for _ in range(2):
        home.run("term-statistics")
    home.run("maintain")
    assert {row["statistics_version"] for row in stored(home)} == {3, 4, 5}, "3 is in force at the first request"
    home.match()
    assert home.run("check", "--all")["success"]


def request_file(path: Path) -> Path:
    asked = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [-1, -1, 1, 1]}
    path.write_text(json.dumps(asked | {"created_at": "2026-03-01T00:00:00Z"}), "utf-8")
    return path


def test_maintain_drops_versions_that_no_batch_will_read(home: Home, tmp_path: Path) -> None:
    home.ingest("requests", [request_file(tmp_path / "r.jsonl")])
    for _ in range(3):
        home.run("term-statistics")
    home.run("maintain")
    assert {row["statistics_version"] for row in stored(home)} == {1, 2, 3}, "the next batch covers all three"
    home.match()
    home.run("term-statistics")
    home.run("maintain")
    assert {row["statistics_version"] for row in stored(home)} == {3, 4}
    ask = pststream.open(str(home.path)).ask
    assert set(ask([{**QUESTION, "keywords": "tea"}])["term_statistics_version"].to_pylist()) == {4}


def test_export_has_the_words(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "statistics.parquet"
    assert home.run("export", "term-statistics", "--out", out)["rows"] == 0
    home.run("term-statistics")
    assert home.run("export", "term-statistics", "--out", out)["rows"] == 9
    rows = pq.read_table(out).to_pylist()
    words = Counter(word for text in TEXTS for word in set(words_of(text)))
    assert {row["term"]: row["documents"] for row in rows} == dict(words)
    assert [row["documents"] for row in rows] == sorted(words.values(), reverse=True)
    assert {(row["version"], row["objects"]) for row in rows} == {(1, 6)}
    home.run("export", "term-statistics", "--out", tmp_path / "s.jsonl")
    assert json.loads((tmp_path / "s.jsonl").read_text("utf-8").splitlines()[0])["documents"] == 3
    home.run("export", "term-statistics", "--out", out, "--since", "2026-01-01", code=2)
