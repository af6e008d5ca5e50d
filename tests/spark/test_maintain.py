"""`maintain` drops ended subscriptions and compacts files without changing a match."""

from pathlib import Path

from deltalake import DeltaTable

from tests import worlds
from tests.commands import Home, new_home


def test_ended_subscriptions_are_dropped_and_live_ones_match(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", planner="grid", workers=1, lateness_seconds=60)
    asked = [
        {
            "op": "insert",
            "subscription_id": name,
            "keywords": "tea",
            "bbox": [0, 0, 10, 10],
            "created_at": worlds.moment(0),
        }
        for name in ("stays", "deleted early", "deleted late")
    ]
    asked.append({**asked[0], "subscription_id": "expired", "expires_at": worlds.moment(10)})
    ends = [("deleted early", 20), ("deleted late", 1500)]
    asked += [{"op": "delete", "subscription_id": name, "at": worlds.moment(at)} for name, at in ends]
    point = {"lon": 1.0, "lat": 2.0, "text": "tea"}

    def object_at(seconds: int) -> Path:
        row = {"object_id": f"o{seconds}", "ts": worlds.moment(seconds), **point}
        return worlds.write_rows(tmp_path / f"{seconds}.jsonl", [row])

    home.ingest("requests", [worlds.write_rows(tmp_path / "requests.jsonl", asked)])
    home.ingest("objects", [object_at(1000)])
    home.match()
    # Gone: two pieces that ended before 940 seconds, and both deletions.
    assert home.run("maintain")["dropped_rows"] == 4
    rows = DeltaTable(home.path / "tables" / "worker_index").to_pyarrow_table(columns=["worker", "subscription_key"])
    assert rows.num_rows == 2 and min(rows.column("worker").to_pylist()) >= 0
    assert home.run("maintain")["dropped_rows"] == 0
    home.ingest("objects", [object_at(1400), object_at(1600)])
    home.match()
    live = ["deleted late", "stays"]
    wanted = [(f"o{at}", name) for at in (1000, 1400) for name in live] + [("o1600", "stays")]
    assert [(o, s) for o, _, s in home.exported()] == wanted


JOINED = ("objects", "rejects", "matches")


def files_of(home: Home, name: str) -> int:
    return len(DeltaTable(home.path / "tables" / name).file_uris())


def test_compaction_of_large_tables_changes_no_row(tmp_path: Path) -> None:
    """A late subscription finds an object whose time is in the last millisecond of a compacted file."""
    home = new_home(tmp_path / "home", planner="grid", workers=2)
    ask = {"op": "insert", "keywords": "tea", "bbox": [0, 0, 10, 10]}
    early = {**ask, "subscription_id": "early", "created_at": worlds.moment(0)}
    home.ingest("requests", [worlds.write_rows(tmp_path / "early.jsonl", [early])])
    for number in range(4):
        ts = f"2026-03-01T00:00:0{number}.000900Z"
        row = {"object_id": f"o{number}", "ts": ts, "lon": 1.0, "lat": 2.0, "text": "tea"}
        bad = {**row, "object_id": f"bad{number}", "lon": 999}
        home.ingest("objects", [worlds.write_rows(tmp_path / f"{number}.jsonl", [row, bad])])
        home.match()
    before = home.exported()
    assert [files_of(home, name) for name in JOINED] == [4, 4, 4]
    assert home.run("maintain")["files_joined"] == 9
    assert [files_of(home, name) for name in JOINED] == [1, 1, 1]
    assert home.run("maintain")["files_joined"] == 0
    assert home.exported() == before and len(before) == 4
    late = {**ask, "subscription_id": "late", "created_at": "2026-03-01T00:00:03.000500Z"}
    home.ingest("requests", [worlds.write_rows(tmp_path / "late.jsonl", [late])])
    home.match()
    assert [pair[:1] + pair[2:] for pair in home.exported() if pair[2] == "late"] == [("o3", "late")]
    assert home.run("check", "--all")["success"]
    # Version 0 of `objects` is before the first of them.
    assert home.run("plan", "--from-version", "0", "--dry-run")
    assert "no longer; the newest is" in home.run("plan", "--from-version", "99999", "--dry-run", code=2)["error"]


def test_duplicates_do_not_depend_on_compaction(tmp_path: Path) -> None:
    """An id that was accepted again, beyond the lateness, and comes a third time within it."""
    home = new_home(tmp_path / "home", planner="grid", workers=1, lateness_seconds=60)
    rejected = []
    for number, (name, seconds) in enumerate([("x", 0), ("y", 1000), ("x", 1010), ("x", 1020)]):
        row = {"object_id": name, "ts": worlds.moment(seconds), "lon": 1.0, "lat": 2.0, "text": "tea"}
        if number == 3:
            assert home.run("maintain")["files_joined"] > 0
        rejected.append(home.ingest("objects", [worlds.write_rows(tmp_path / f"{number}.jsonl", [row])])["rejected"])
    assert rejected == [0, 0, 0, 1]
