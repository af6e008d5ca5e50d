"""The checks of the tables pass after every operation on a home, and fail on each fault that is made by hand."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.state import ledger_tables
from pststream.state.home import Home as Tables
from tests.commands import KILLED, Home, run_here
from tests.damage import add_pieces, delete_rows
from tests.kill_and_rerun import home_for, table_of, written
from tests.unbalanced_homes import write_uneven_loads
from tests.worlds import write_rows


def checked(home: Home, *options: str) -> dict[str, dict[str, Any]]:
    """Run the checks; return them by name. The exit code agrees with them."""
    result = run_here("check", *options, "--home", home.path, "--json")
    assert result.code in (0, 1), result.err
    assert result.json["success"] is (result.code == 0)
    return {one["check"]: one for one in result.json["checks"]}


def off(home: Home, *options: str) -> set[str]:
    """The figures that are not zero."""
    found = checked(home, *options)
    for one in found.values():
        wrong = [figure for figure, value in one["figures"].items() if value]
        assert len(one["failed"]) == len(wrong) and one["success"] is not bool(wrong)
    return {figure for one in found.values() for figure, value in one["figures"].items() if value}


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home of several batches: late objects, late subscriptions, deletions; the last file of objects is pending."""
    folder = tmp_path_factory.mktemp("check")
    world = written(folder / "files", 41, 4)
    home = home_for(folder / "home", world)
    assert off(home) == set(), "nothing was done yet"
    for things, asked in zip(world.objects[:3], world.requests[:3]):
        home.ingest("objects", [things])
        home.ingest("requests", [asked])
        home.match("--max-objects", "17")
    home.ingest("objects", world.objects[3:])
    home.ingest("requests", world.requests[3:])
    assert off(home) == set()
    return home


@pytest.fixture
def home(grown: Home, tmp_path: Path) -> Home:
    """A copy of that home, to break."""
    shutil.copytree(grown.path, tmp_path / "home")
    return Home(tmp_path / "home")


def rows(home: Home, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table_of(home, table).to_pyarrow_table().to_pylist()
    return found


def replaced(home: Home, table: str, predicate: str, old: dict[str, Any], **changes: Any) -> None:
    place = Tables(home.path)
    delete_rows(place, table, predicate)
    if table == names.WORKER_INDEX:
        add_pieces(place, [old | changes])
    else:
        ledger_tables.append(place, table, [old | changes])


def live_row(home: Home) -> dict[str, Any]:
    """A row of the index of a subscription that nothing ends."""
    deleted = {row["subscription_key"] for row in rows(home, "requests") if row["op"] == "delete"}
    stored = [row for row in rows(home, "worker_index") if row["worker"] >= 0]
    return next(r for r in stored if r["end_at"] == names.NEVER_US and r["subscription_key"] not in deleted)


def of_row(row: dict[str, Any]) -> str:
    return f"subscription_key = {row['subscription_key']} AND worker = {row['worker']} AND west = {row['west']!r}"


@pytest.mark.deep
def test_passes_through_all_that_is_done_to_a_home(home: Home) -> None:
    home.match()
    assert off(home) == set()
    home.run("maintain")
    assert off(home, "--all") == set()
    home.run("plan", "--planner", "hybrid", "--workers", "4")
    assert off(home) == set()
    write_uneven_loads(home)
    home.run("balance", "local", "--sigma", "1.01", "--apply")
    checks = checked(home, "--all")
    assert all(one["success"] for one in checks.values())
    home.run("maintain")
    assert off(home) == set()


@pytest.mark.slow
def test_an_unfinished_batch_is_the_only_fault(home: Home) -> None:
    for step in ("match.indexed", "match.matched"):
        assert home.crash(step, "match", "--max-objects", "5").code == KILLED
        assert off(home) == {"unfinished_batches"}
        assert "pststream match" in checked(home)["ledger"]["failed"][0]
        home.run("match", "--max-objects", "5", "--one")
    home.match()
    assert off(home) == set()


@pytest.mark.slow
def test_a_killed_planner_and_a_killed_migration_leave_no_fault(home: Home) -> None:
    home.match()
    assert home.crash("plan.indexed", "plan", "--planner", "hybrid").code == KILLED
    assert off(home) == set()
    write_uneven_loads(home)
    rows_before = home.run("status")["index"]["rows"]
    assert home.crash("balance.indexed", "balance", "local", "--sigma", "1.01", "--apply").code == KILLED
    assert home.run("status")["index"]["rows"] > rows_before, "the killed migration has added pieces"
    assert off(home) == set()
    home.run("maintain")
    assert off(home) == set()


def test_results_are_kept_and_matches_that_passed_are_not_read_again(home: Home) -> None:
    before = len(rows(home, "quality_results"))
    assert off(home) == set()
    kept = rows(home, "quality_results")
    assert len(kept) == before + 3
    last = max(row["batch_id"] for row in rows(home, "batches"))
    assert {(row["suite"], row["batch_id"]) for row in kept[:3]} == {("tables", last)}
    old = next(row for row in rows(home, "matches") if row["subscription_keys"])
    ledger_tables.append(Tables(home.path), "matches", [old | {"batch_id": last + 9}])
    ledger_tables.append(Tables(home.path), "matches", [old])
    assert off(home) == set(), "batches that passed are not read again"
    assert off(home, "--all") == {"pairs_off"}


def test_a_file_that_is_missed(home: Home) -> None:
    delete_rows(Tables(home.path), "files", "file_seq = 2")
    # What follows from it shows elsewhere too: rows of the index without the requests of a file, and so on.
    assert off(home, "--all") >= {"missing_files", "requests_off"}


def test_a_batch_that_was_done_twice(home: Home) -> None:
    done = next(row for row in rows(home, "batches") if row["status"] == "done")
    ledger_tables.append(Tables(home.path), "batches", [done])
    assert off(home, "--all") == {"missing_batches"}


@pytest.mark.deep
def test_index_that_is_broken(home: Home) -> None:
    row = live_row(home)
    place = Tables(home.path)
    key = str(row["subscription_key"])

    add_pieces(place, [row])
    assert off(home) == {"doubled"}
    replaced(home, "worker_index", of_row(row), row)
    assert off(home) == set()

    delete_rows(place, "worker_index", of_row(row))
    assert off(home) == {"missing"}
    assert key in checked(home)["placement"]["failed"][0]
    other = (row["worker"] + 1) % 3
    holders = {r["worker"] for r in rows(home, "worker_index") if r["subscription_key"] == row["subscription_key"]}
    if other not in holders:
        add_pieces(place, [row | {"worker": other}])
        assert off(home) == {"missing", "stray"}
        delete_rows(place, "worker_index", of_row(row | {"worker": other}))
    add_pieces(place, [row])

    changes = ({"east": row["east"] - 0.25}, {"created_at": 7}, {"end_at": 2**60}, {"clauses": [[1, 2]]})
    for change in (*changes, {"verified": [[3]]}, {"phrases": [[4, 6]]}):
        replaced(home, "worker_index", of_row(row), row, **change)
        assert "altered" in off(home), change
    replaced(home, "worker_index", of_row(row), row)

    add_pieces(place, [row | {"subscription_key": 1}])
    assert "orphans" in off(home)
    delete_rows(place, "worker_index", "subscription_key = 1")
    ended = dict.fromkeys(row) | {field: row[field] for field in ("index_version", "batch_id", "subscription_key")}
    add_pieces(place, [ended | {"worker": names.EVERY_WORKER, "end_at": 5}])
    assert off(home) == {"orphans"}, "a deletion that nobody asked for"


def test_a_deletion_that_the_index_lacks(home: Home) -> None:
    assert [row for row in rows(home, "worker_index") if row["worker"] == names.EVERY_WORKER]
    delete_rows(Tables(home.path), "worker_index", f"worker = {names.EVERY_WORKER}")
    assert off(home) == {"lost_deletions"}


def test_an_earlier_deletion_after_a_plan_that_knew_a_later_one(home: Home, tmp_path: Path) -> None:
    """The rows of the index end at the later deletion, and the index has the earlier one too."""
    head = {"subscription_id": "twice", "created_at": "2026-03-01T00:00:00Z", "keywords": "coffee"}
    asked = [{**head, "op": "insert", "bbox": [0, 0, 9, 9], "expires_at": "2026-04-01T00:00:00Z"}]
    asked.append({"op": "delete", "subscription_id": "twice", "at": "2026-03-20T00:00:00Z"})
    home.ingest("requests", [write_rows(tmp_path / "requests-1.jsonl", asked)])
    home.match()
    home.run("plan", "--planner", "grid")
    deletion = [{"op": "delete", "subscription_id": "twice", "at": "2026-03-10T00:00:00Z"}]
    home.ingest("requests", [write_rows(tmp_path / "requests-2.jsonl", deletion)])
    home.match()
    assert off(home) == set()


def test_matches_that_are_broken(home: Home) -> None:
    place = Tables(home.path)
    found = [row for row in rows(home, "matches") if not row["retracted"]]
    batches = {row["batch_id"]: row for row in rows(home, "batches") if row["status"] == "done"}
    row = min(found, key=lambda row: row["batch_id"])
    last = batches[max(batches)]

    delete_rows(place, "batches", f"batch_id = {row['batch_id']}")
    assert "unknown_batches" in off(home, "--all")
    ledger_tables.append(place, "batches", [batches[row["batch_id"]]])
    assert off(home, "--all") == set()

    too_new = row | {"object_key": last["objects_to"] + 1}
    ledger_tables.append(place, "matches", [too_new])
    assert off(home, "--all") == {"out_of_range", "pairs_off"}
    delete_rows(place, "matches", f"object_key = {too_new['object_key']}")
    known_before = row | {"batch_id": max(batches)}
    ledger_tables.append(place, "matches", [known_before])
    assert off(home, "--all") == {"out_of_range", "pairs_off"}, "a pair that an earlier batch was to find"
    delete_rows(place, "matches", f"batch_id = {max(batches)} AND object_key = {row['object_key']}")

    delete_rows(place, "matches", f"object_key = {row['object_key']} AND batch_id = {row['batch_id']}")
    assert off(home, "--all") == {"pairs_off"}


def test_a_check_waits_for_no_writer_and_changes_nothing_else(home: Home) -> None:
    versions = home.run("status")["versions"]
    checked(home)
    after = home.run("status")["versions"]
    assert {name for name in versions if versions[name] != after[name]} == {"quality_results"}
    with Tables(home.path).locked():
        assert run_here("check", "--home", home.path).code == 1
