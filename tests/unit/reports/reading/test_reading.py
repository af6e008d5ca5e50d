"""Answers as pages read them, the latest batches, and the progress of sinks."""

import random
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.reports.commands.metrics import render_metrics
from pststream.reports.commands.status import read_status, render_status
from pststream.reports.reading import answer_view
from pststream.reports.reading.answer_view import AskedAnswer, read_answer_views
from pststream.reports.reading.home_figures import read_batch_history
from pststream.state import ledger_tables
from pststream.state.deliveries import (
    Counts,
    SinkProgress,
    count_dead,
    mark_delivered,
    read_progress,
    save_dead_letters,
    save_progress,
)
from pststream.state.home import Home
from pststream.tables.delta_tables import TableReader, read_table
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    add_sinks,
    at,
    copy_of,
    log_row,
    thing,
)

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


def test_many_batches_are_cut_and_the_totals_are_not(hand_home: Home) -> None:
    for _ in range(3):
        add_batch(hand_home)
    done = next(row for row in read_table(hand_home.table(names.BATCHES)).to_pylist() if row["status"] == "done")
    more = [{**done, "batch_id": number, "seconds_by_step": [("match", 1.0)]} for number in range(4, 104)]
    ledger_tables.append(hand_home, names.BATCHES, more)
    history = read_batch_history(TableReader(hand_home, tolerant=True))
    assert [batch.batch_id for batch in history.batches] == list(range(44, 104))
    assert history.totals.batches == 103


def letter(sink: str, message_id: str) -> dict[str, Any]:
    return {
        "sink": sink, "message_id": message_id, "batch_id": 1, "owner": "", "subscription_id": "s",
        "kind": "matched", "reason": "HTTP status 400", "message": "{}",
    }  # fmt: skip


def test_sinks_at_different_places(hand_home: Home) -> None:
    add_sinks(hand_home, "slow", "well")
    for _ in range(5):
        add_batch(hand_home)
    add_batch(hand_home, done=False)
    save_progress(hand_home, "slow", SinkProgress(1, 7, True), Counts(7))
    save_progress(hand_home, "slow", SinkProgress(3, 2, False, state="down"), Counts(9, 2, 4), "HTTP status 503")
    save_progress(hand_home, "well", SinkProgress(5, 0, True), Counts(11))
    save_dead_letters(hand_home, [letter("slow", "x"), letter("slow", "y"), letter("slow", "x"), letter("well", "z")])
    mark_delivered(hand_home, [letter("well", "z"), letter("slow", "y")])

    slow, well = read_status(hand_home)["deliveries"]
    assert (slow["sink"], slow["state"], slow["reason"], slow["batch_id"]) == ("slow", "down", "HTTP status 503", 3)
    assert (slow["batches_left"], well["batches_left"]) == (3, 0)
    assert [(sink["delivered"], sink["refused"], sink["failures"]) for sink in (slow, well)] == [(16, 2, 4), (11, 0, 0)]
    assert (slow["dead"], well["dead"]) == (1, 0) == (count_dead(hand_home, "slow"), count_dead(hand_home, "well"))
    text = render_status(read_status(hand_home))
    assert "slow: down (HTTP status 503" in text and "3 batches behind, 1 dead letter" in text
    assert read_table(hand_home.table(names.DEAD_LETTERS)).num_rows == 6


def test_the_row_that_is_furthest_counts(hand_home: Home) -> None:
    """Whatever a clock said: places only grow."""
    for place in (
        SinkProgress(2, 5, False),
        SinkProgress(1, 9, True),
        SinkProgress(2, 5, True),
        SinkProgress(2, 4, False),
    ):
        save_progress(hand_home, "a", place, Counts())
    assert read_progress(hand_home, "a") == SinkProgress(2, 5, True)
    assert read_progress(hand_home, "b") == SinkProgress()
    assert read_status(hand_home)["deliveries"][0]["batch_id"] == 2


def test_a_sink_that_the_settings_name_no_more(hand_home: Home) -> None:
    """It is not down, since no messages are meant for it."""
    add_sinks(hand_home, "kept")
    for _ in range(3):
        add_batch(hand_home)
    for sink in ("kept", "given-up"):
        save_progress(hand_home, sink, SinkProgress(1, 0, True, state="down"), Counts(3), "HTTP status 410")
    gone, kept = read_status(hand_home)["deliveries"]
    assert (gone["sink"], gone["state"], gone["batches_left"], gone["delivered"]) == ("given-up", "removed", 0, 3)
    assert (kept["state"], kept["batches_left"]) == ("down", 2)
    text = render_metrics(hand_home)
    assert 'sink_up{sink="kept"} 0' in text and "given-up" not in text


def test_no_sink(hand_home: Home) -> None:
    assert read_status(hand_home)["deliveries"] == []
