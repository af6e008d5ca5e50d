"""Answers on a terminal: a line a row, whatever the kind."""

from datetime import UTC, datetime
from typing import Any

from pststream.reports.commands.listings import render_answers
from pststream.reports.reading.standing_answers import ANSWERS

AT = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)


def row(subscription_id: str, **values: Any) -> dict[str, Any]:
    return dict.fromkeys(ANSWERS.names) | {"subscription_id": subscription_id, "rank": 1, "as_of": AT} | values


def test_each_kind_shows_its_value() -> None:
    rows = [
        row("near", object_id="p1", ts=AT, distance_m=1_234.5),
        row("best", object_id=None, ts=AT, score=0.51239),
        row("words", term="tea", count=12),
        row("a\x1b[2Jb", object_id="p\n2", ts=AT, distance_m=0.0),
    ]
    lines = render_answers({"answers": rows, "complete": False}).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "subscription rank object or word time distance, score or count",
        "near 1 p1 2026-01-01T09:30:00Z 1,234 m",
        "best 1 (erased) 2026-01-01T09:30:00Z 0.5124",
        "words 1 tea 2026-01-01T09:30:00Z 12",
        r"a\x1b[2Jb 1 p\n2 2026-01-01T09:30:00Z 0 m",
        "the first 4 rows; all: pststream export answers",
    ]


def test_without_answers_it_says_where_to_look() -> None:
    assert "docs/subscriptions.md" in render_answers({"answers": [], "complete": True})
