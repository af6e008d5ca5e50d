"""Rejects in their order, answers on a terminal, and what read-only commands load."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from pststream.reports.commands.listings import list_rejects, render_answers
from pststream.reports.reading.standing_answers import ANSWERS
from pststream.state.home import Home
from tests.unit.reports.commands.homes import add_file, reject


def filled(home: Home) -> None:
    add_file(home, "objects", [], [reject(9, "late", "ts", "x"), reject(2, "missing")])
    add_file(home, "requests", [], [reject(1, "late", "at"), reject(3, "missing", "keywords", None)])


def test_rows_in_order(hand_home: Home) -> None:
    filled(hand_home)
    rows = list_rejects(hand_home, None, None)
    assert [(row["kind"], row["row"]) for row in rows] == [
        ("requests", 1),
        ("requests", 3),
        ("objects", 2),
        ("objects", 9),
    ]
    assert rows[3] == {
        "kind": "objects", "file": "/landing/objects-1.jsonl", "row": 9, "field": "ts", "reason": "late",
        "detail": "because late", "raw": "x", "ingest_id": 1, "is_stored": False,
        "retried_by": None,
    }  # fmt: skip


def test_reason_and_limit(hand_home: Home) -> None:
    filled(hand_home)
    assert [row["row"] for row in list_rejects(hand_home, "late", None)] == [1, 9]
    for limit in (1, 2, 3, 4, 5):
        assert list_rejects(hand_home, None, limit) == list_rejects(hand_home, None, None)[:limit]
    assert list_rejects(hand_home, "no such", 10) == []


def test_none(hand_home: Home) -> None:
    assert list_rejects(hand_home, None, None) == []


AT = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)


def row(subscription_id: str, **values: Any) -> dict[str, Any]:
    named = {"owner": "", "subscription_id": subscription_id}
    return dict.fromkeys(ANSWERS.names) | named | {"rank": 1, "as_of": AT} | values


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


COMMANDS = ("status", "metrics", "explain", "plans", "listings", "comparisons")


def test_read_only_commands_load_no_page() -> None:
    """They start fast: they load neither the template engine nor the pages."""
    program = (
        f"import sys, pststream.cli.main, {', '.join(f'pststream.reports.commands.{name}' for name in COMMANDS)}\n"
    )
    program += "print(sorted(name for name in sys.modules if name in ('jinja2', 'pststream.reports.pages')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
