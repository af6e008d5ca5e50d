"""Rejects are ordered by ingest, the newest first, then by file and row."""

from pststream.reports.commands.listings import list_rejects
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
