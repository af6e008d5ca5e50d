"""The progress of a sink is its furthest row, the sums of all rows, and its dead letters that were not replayed."""

from typing import Any

from pststream.base import names
from pststream.reports.commands.metrics import render_metrics
from pststream.reports.commands.status import read_status, render_status
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
from pststream.tables.delta_tables import read_table
from tests.unit.reports.commands.homes import add_batch, add_sinks


def letter(sink: str, message_id: str) -> dict[str, Any]:
    return {
        "sink": sink, "message_id": message_id, "batch_id": 1, "subscription_id": "s", "kind": "matched",
        "reason": "HTTP status 400", "message": "{}",
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
