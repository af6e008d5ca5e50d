"""Answers as pages read them, from a snapshot and the changes after it, are those of a plain sum of all changes."""

import random
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.reports.reading import answer_view
from pststream.reports.reading.answer_view import AskedAnswer, read_answer_views
from pststream.state.home import Home
from pststream.tables.delta_tables import TableReader
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import add_answer_rows, add_batch, add_file, at, copy_of, log_row, thing

BATCHES, OBJECTS, K = 8, 40, 3
SNAPSHOT = 4
"""The batch of the last snapshot."""

HOUR = 3_600_000_000
WORDS = ("tea", "coffee", "éclair")
KEYS = (1, 2)
REPORTS = 7

Row = dict[str, Any]


def change(batch_id: int, key: int, event: str, number: int, rank: int) -> Row:
    """A change of the object with a number; its value is the number modulo 10, so that there are ties."""
    fields = {"object_key": log_key(1, number), "ts": at(number), "value": float(number % 10), "rank": rank}
    return log_row(batch_id, subscription_key=key, event=event, **fields)


@pytest.fixture(scope="module")
def logged(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, dict[int, set[int]], list[Row]]:
    """A home, the numbers of the objects in each answer, and all changes of reports."""
    home, rnd = copy_of(empty_home, tmp_path_factory.mktemp("view") / "home"), random.Random(5)
    add_file(home, "objects", [thing(number, f"o{number}", number) for number in range(1, OBJECTS)])
    answers: dict[int, set[int]] = {key: set() for key in KEYS}
    reports: list[Row] = []
    for batch_id in range(1, BATCHES + 1):
        rows = []
        for key in KEYS:
            gone = {number for number in answers[key] if rnd.randrange(3) == 0}
            new = set(rnd.sample(range(1, OBJECTS + 1), 6)) - answers[key]
            new = set(sorted(new)[: K - len(answers[key] - gone)])
            rows += [change(batch_id, key, "left", number, 1) for number in gone]
            rows += [change(batch_id, key, "entered", number, 1) for number in new]
            answers[key] = (answers[key] - gone) | new
        tick = at(60 * batch_id)
        counts = [(word, rnd.randrange(1, 5)) for word in WORDS]
        reports += [
            log_row(batch_id, subscription_key=REPORTS, ts=tick, term=word, count=count, rank=1)
            for word, count in counts
        ]
        if batch_id > 1:  # a late object
            old = next(
                row for row in reports[::-1] if row["ts"] == at(60 * (batch_id - 1)) and row["event"] == "entered"
            )
            reports.append({**old, "batch_id": batch_id, "event": "left"})
            reports.append({**old, "batch_id": batch_id, "count": old["count"] + 1})
        add_answer_rows(
            home, names.ANSWER_LOG, [*rows, *(r for r in reports if r["batch_id"] == batch_id)], part="change"
        )
        if batch_id == SNAPSHOT:
            spare = {key: max(answers[key], key=lambda number: number % 10) for key in KEYS}
            add_answer_rows(home, names.ANSWERS, [
                {"batch_id": batch_id, "bucket": 0, "subscription_key": key, "threshold": 99.0,
                 "object_key": log_key(1, number), "ts": at(number), "value": value}
                for key in KEYS
                for number, value in [*((n, float(n % 10)) for n in answers[key]), (spare[key], 50.0)]
            ])  # fmt: skip
        add_batch(home, stream_time=at(60 * batch_id + 5))
    return home, answers, reports


ASKED = [*(AskedAnswer(key, K) for key in KEYS), AskedAnswer(REPORTS, 3, HOUR)]


def test_rows_are_the_sum_of_all_changes(logged: tuple[Home, dict[int, set[int]], list[Row]]) -> None:
    home, answers, _ = logged
    for one, view in zip(KEYS, read_answer_views(TableReader(home), ASKED), strict=False):
        wanted = sorted(answers[one], key=lambda number: (number % 10, -number))
        ranked = [(rank, f"o{number}") for rank, number in enumerate(wanted, 1) if number != OBJECTS]
        assert [(row.rank, row.object_id) for row in view.rows] == ranked, "the last object was erased"
        assert view.complete and view.as_of == at(60 * BATCHES + 5)
        assert [row.batch_id for row in view.changes] == sorted((row.batch_id for row in view.changes), reverse=True)


def test_reports_of_the_latest_ticks(
    logged: tuple[Home, dict[int, set[int]], list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _, reports = logged
    present: dict[Any, dict[str, int]] = {}
    for row in reports:
        if row["event"] == "entered":
            present.setdefault(row["ts"], {})[row["term"]] = row["count"]
    (view,) = read_answer_views(TableReader(home), ASKED[-1:])
    assert view.ticks == present and view.as_of == at(60 * BATCHES)
    last = present[at(60 * BATCHES)]
    wanted = sorted(last, key=lambda word: (-last[word], word.encode()))
    assert [(row.rank, row.term, row.count) for row in view.rows] == [
        (rank, word, last[word]) for rank, word in enumerate(wanted, 1)
    ]
    monkeypatch.setattr(answer_view, "TICKS", 2)
    (view,) = read_answer_views(TableReader(home), ASKED[-1:])
    assert list(view.ticks) == [at(60 * (BATCHES - 1)), at(60 * BATCHES)]
    (ended,) = read_answer_views(TableReader(home), [AskedAnswer(REPORTS, 3, HOUR, at(60 * 3 + 1))])
    assert list(ended.ticks)[-1] >= at(60 * 3)


def test_a_bound_on_the_rows_that_are_searched(
    logged: tuple[Home, dict[int, set[int]], list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_view, "MAX_SEARCHED", 1)
    view, *_ = read_answer_views(TableReader(logged[0]), ASKED)
    assert not view.complete and {change.batch_id for change in view.changes} == {BATCHES}
    monkeypatch.setattr(answer_view, "MAX_SEARCHED", 10**6)
    monkeypatch.setattr(answer_view, "LATEST_CHANGES", 1)
    view, *_ = read_answer_views(TableReader(logged[0]), ASKED)
    assert view.complete and len(view.changes) == 1


def test_a_home_without_batches(hand_home: Home) -> None:
    assert read_answer_views(TableReader(hand_home), ASKED[:1])[0].rows == []
