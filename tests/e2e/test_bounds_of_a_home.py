"""A home works as before with rows that are larger than bounds that are set later; new rows are judged by them."""

import json
from pathlib import Path
from typing import Any

import pytest

from pststream.input import row_chunks
from pststream.pipeline.ingest import stage_file
from tests.commands import new_home

pytestmark = [pytest.mark.e2e]

OBJECT = {"object_id": "o", "ts": "2026-03-01T12:00:00Z", "lon": 1.0, "lat": 2.0, "text": "tea"}
REQUEST = {"op": "insert", "keywords": "tea", "bbox": [0, 0, 9, 9], "created_at": "2026-01-01T00:00:00Z"}
LONG = "s" * 900
DEEP = "(" * 90 + "tea" + ")" * 90


def written(path: Path, *rows: dict[str, Any]) -> list[Path]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [path]


def test_rows_accepted_before_the_bounds_stay(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", planner="grid", workers=2)
    large = REQUEST | {"subscription_id": LONG, "keywords": DEEP, "payload": {"note": "n" * 50_000}}
    assert home.ingest("requests", written(tmp_path / "1.jsonl", large))["accepted"] == 1
    assert home.ingest("objects", written(tmp_path / "2.jsonl", OBJECT | {"object_id": LONG}))["accepted"] == 1
    home.set(max_id_bytes=100, max_payload_bytes=100, max_expression_words=1)
    rows = [
        large | {"subscription_id": LONG + "2"},
        large | {"subscription_id": "payload"},
        REQUEST | {"subscription_id": "words", "keywords": "tea milk"},
        REQUEST | {"subscription_id": "good"},
    ]
    assert home.ingest("requests", written(tmp_path / "3.jsonl", *rows))["accepted"] == 1
    assert home.ingest("objects", written(tmp_path / "4.jsonl", OBJECT | {"object_id": LONG + "2"}))["accepted"] == 0
    rejected = {
        (Path(one["file"]).name, one["row"], one["field"], one["reason"]) for one in home.run("rejects")["rejects"]
    }
    assert rejected == {
        ("3.jsonl", 1, "subscription_id", "id_too_long"),
        ("3.jsonl", 2, "payload", "payload_too_long"),
        ("3.jsonl", 3, "keywords", "unreadable_expression"),
        ("4.jsonl", 1, "object_id", "id_too_long"),
    }
    home.match()
    assert {(o, s) for o, _, s in home.exported()} == {(LONG, LONG), (LONG, "good")}
    assert home.run("check")
    deletion = {"op": "delete", "subscription_id": LONG, "at": "2026-03-01T00:00:00Z"}
    assert home.ingest("requests", written(tmp_path / "5.jsonl", deletion))["accepted"] == 1
    home.match()
    assert {(o, s) for o, _, s in home.exported()} == {(LONG, "good")}


def test_a_landed_file_with_too_many_rows_is_quarantined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_chunks, "MAX_ROW", 2)
    home = new_home(tmp_path / "home", engine="local", planner="grid", workers=2)
    landing = tmp_path / "landing" / "objects"
    landing.mkdir(parents=True)
    for name, rows in (("good", 2), ("large", 3)):
        written(landing / f"{name}.jsonl", *(OBJECT | {"object_id": f"{name} {n}"} for n in range(rows)))
    done = home.run("run", landing.parent)["ingest"]["objects"]
    assert (done["files"], done["accepted"]) == (1, 2)
    (hold,) = done["quarantined"]
    assert Path(hold["path"]).name == "large.jsonl" and "more than 2 rows" in hold["reasons"][0]


def test_requests_of_a_file_have_room_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_file, "choose_part_bytes", lambda sizes: 400)  # several tasks read the file
    home = new_home(tmp_path / "home", engine="local", planner="grid", workers=2, max_file_room=40)
    topk = {"op": "insert", "kind": "topk", "point": {"lon": 1, "lat": 2}, "alpha": 0.5, "window": "1h"}
    asked = topk | {"keywords": "tea milk", "created_at": "2026-01-01T00:00:00Z"}
    rows: list[dict[str, Any]] = [asked | {"subscription_id": f"s{n}", "k": 2} for n in range(1, 9)]  # 8 entries each
    rows[1] |= {"k": 0}
    rows[6] |= {"k": 1}  # less room than others, but not before them
    rows.append({"op": "delete", "subscription_id": "s1", "at": "2026-02-01T00:00:00Z"})
    rows.append({"op": "delete", "subscription_id": "s8", "at": "2026-02-01T00:00:00Z"})
    counts = home.ingest("requests", written(tmp_path / "1.jsonl", *rows))
    assert counts["rejects_by_reason"] == {"out_of_range": 1, "over_room": 2, "unknown_subscription": 1}
    rejected = {(one["row"], one["field"], one["reason"]) for one in home.run("rejects")["rejects"]}
    assert rejected == {
        (2, "k", "out_of_range"),
        (7, "subscription_id", "over_room"),
        (8, "subscription_id", "over_room"),
        (10, "subscription_id", "unknown_subscription"),
    }
    later = written(tmp_path / "2.jsonl", rows[7])
    assert home.ingest("requests", later)["accepted"] == 1
    home.match()
    assert home.run("check")
