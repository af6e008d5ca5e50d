"""The check of answers passes for a home with all kinds, and each fault that is made by hand makes it fail."""

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.base.progress import no_progress
from pststream.pipeline.answers.answer_context import states_folder, states_of_home
from pststream.pipeline.upkeep import check_answers
from pststream.pipeline.upkeep.check_answers import count_answer_faults
from pststream.settings import load_settings
from pststream.state import ledger_tables
from pststream.state.home import Home as State
from pststream.tables.delta_tables import greatest_value, read_table
from tests.commands import Home, run_here
from tests.damage import delete_rows
from tests.erased_homes import set_clock
from tests.unit.reports.commands.homes import add_answer_rows

Row = dict[str, Any]


@pytest.fixture
def home(home_with_answers: Home, tmp_path: Path) -> Home:
    """A copy of that home, to break."""
    shutil.copytree(home_with_answers.path, tmp_path / "home")
    return Home(tmp_path / "home")


def off(home: Home) -> set[str]:
    """The figures that are not zero."""
    place = State(home.path)
    last = greatest_value(place.table(names.BATCHES), "batch_id")
    faults = count_answer_faults(place, load_settings(home.path), last, 0, no_progress)
    assert all(faults.figures[figure] for figure, keys in faults.examples.items() if keys)
    return {figure for figure, count in faults.figures.items() if count}


def skipped(home: Home, *options: str) -> str:
    """What the check `answers` says that it does not compare."""
    return "; ".join(home.run("check", *options)["checks"][-1]["skipped"])


def rows(home: Home, table: str) -> list[Row]:
    found: list[Row] = read_table(State(home.path).table(table)).to_pylist()
    return found


def changes(home: Home, **wanted: Any) -> list[Row]:
    """The rows of part `change`, the last batch first; wanted: values of columns."""
    found = [row for row in rows(home, names.ANSWER_LOG) if row["part"] == "change"]
    found = [row for row in found if all(row[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda row: -row["batch_id"])


def identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("subscription_key", "object_key", "ts", "term"))


def present(home: Home) -> list[Row]:
    """The rows of answers, those that entered last first."""
    last: dict[tuple[Any, ...], Row] = {}
    for row in sorted(changes(home), key=lambda row: (row["batch_id"], row["event"] == "entered")):
        last[identity(row)] = row
    entered = [row for row in last.values() if row["event"] == "entered" and row["term"] is None]
    return sorted(entered, key=lambda row: -row["batch_id"])


def condition(row: Row) -> str:
    columns = ("batch_id", "subscription_key", "object_key", "term", "event", "part")
    texts = (f"{name} = {row[name]!r}" for name in columns if row.get(name) is not None)
    times = f" AND ts = '{row['ts'].isoformat()}'" if row.get("ts") is not None else ""
    return " AND ".join(texts) + times


def lose(home: Home, table: str, row: Row) -> None:
    delete_rows(State(home.path), table, condition(row))


def add(home: Home, row: Row, **other: Any) -> None:
    added = {name: value for name, value in (row | other).items() if name != "part"}
    add_answer_rows(State(home.path), names.ANSWER_LOG, [added], part=row["part"])


def replace(home: Home, row: Row, **other: Any) -> None:
    lose(home, names.ANSWER_LOG, row)
    add(home, row, **other)


def test_a_home_without_faults(home_with_answers: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert off(home_with_answers) == set()
    kinds = {row["kind"] for row in rows(home_with_answers, "requests") if row["op"] == "insert"}
    assert (
        kinds == {"range", "knn", "topk", "frequent_terms"}
        and len({r["batch_id"] for r in rows(home_with_answers, "answers")}) == 2
    )
    monkeypatch.setattr(check_answers, "ROUND_ROWS", 10)
    assert off(home_with_answers) == set(), "in many rounds"


def test_the_command_checks_answers_and_a_snapshot_once(home: Home) -> None:
    first, second = (home.run("check")["checks"][-1] for _ in range(2))
    assert first["check"] == "answers" and first["success"] and second["success"]
    assert first["figures"]["snapshot_off"] == 0 and second["figures"]["snapshot_off"] is None
    assert first["skipped"] == [] and "the last snapshot" in second["skipped"][0]
    shown = run_here("check", "--home", home.path).out
    assert "not compared: the last snapshot" in shown and "not compared: matches of the batches up to" in shown
    # The snapshot of a batch that a check has passed is new to the next check.
    home.run("maintain")
    assert home.run("check")["checks"][-1]["figures"]["snapshot_off"] == 0
    replace(home, present(home)[0], rank=9)
    failed = home.run("check", code=1)["checks"][-1]
    assert "rank that is not theirs" in failed["failed"][0] and "subscription keys such as" in failed["failed"][0]


def test_a_home_with_fewer_changes_and_rows_has_no_fault(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    done = sorted((row for row in rows(home, "batches") if row["status"] == "done"), key=lambda row: row["batch_id"])
    now = done[len(done) // 2]["started_at"] + dt.timedelta(days=1)
    set_clock(monkeypatch, now)
    assert home.run("maintain", "--keep", "answer_log=1d")["rows_expired"]["answer_log"] > 0
    assert off(home) == set()
    assert "by their sum" in skipped(home, "--all") and "erased" not in skipped(home, "--all")
    one, other = present(home)[0], present(home)[-1]
    (thing,) = (row for row in rows(home, "objects") if row["object_key"] == one["object_key"])
    (asked,) = (row for row in rows(home, "requests") if row["request_key"] == other["subscription_key"])
    home.run("erase", "--object-id", thing["object_id"], "--subscription-id", asked["subscription_id"])
    assert off(home) == set() and "are live: some were erased" in skipped(home, "--all")


def lose_a_change(home: Home) -> None:
    lose(home, names.ANSWER_LOG, present(home)[0])


def repeat_a_change(home: Home) -> None:
    add(home, present(home)[0])


def let_a_row_leave_twice(home: Home) -> None:
    add(home, changes(home, event="left", term=None)[0])


def repeat_a_word(home: Home) -> None:
    add(home, next(row for row in changes(home, event="entered") if row["term"]))


def change_a_rank(home: Home) -> None:
    row = present(home)[0]
    replace(home, row, rank=row["rank"] + 1)


def change_the_rank_of_a_word(home: Home) -> None:
    row = next(row for row in changes(home, event="entered") if row["term"])
    replace(home, row, rank=row["rank"] + 7)


def change_a_value(home: Home) -> None:
    row = present(home)[-1]
    replace(home, row, value=row["value"] + 0.5)


def enter_the_answer_of_an_ended_subscription(home: Home) -> None:
    row, stream_time = present(home)[0], max(row["stream_time"] for row in rows(home, "batches") if row["stream_time"])
    deletions = [one for one in rows(home, "requests") if one["op"] == "delete" and one["effective_at"] <= stream_time]
    keys = {one["subscription_key"] for one in deletions}
    ended = next(one for one in changes(home, term=None) if one["subscription_key"] in keys)
    add(home, row | {"subscription_key": ended["subscription_key"], "bucket": ended["bucket"]})


def report_before_the_start(home: Home) -> None:
    row = next(row for row in changes(home, event="entered") if row["term"])
    add(home, row, ts=row["ts"].replace(year=2001))


def enter_more_than_k(home: Home) -> None:
    row = present(home)[0]
    for number in range(1, 12):
        add(home, row, object_key=row["object_key"] + (number << 40), rank=number)


def lose_an_entry_after_the_snapshot(home: Home) -> None:
    last = max(row["batch_id"] for row in rows(home, "answers"))
    of_answers = {identity(row) for row in present(home)}
    found = (row for row in rows(home, names.ANSWER_LOG) if row["part"] == "state" and row["batch_id"] > last)
    lose(home, names.ANSWER_LOG, next(row for row in found if identity(row) in of_answers))
    shutil.rmtree(states_folder("") / states_of_home(State(home.path)), ignore_errors=True)


def lose_an_entry_between_the_snapshots(home: Home) -> None:
    first, last = sorted({row["batch_id"] for row in rows(home, "answers")})
    kept = {(row["subscription_key"], row["object_key"]) for row in rows(home, "answers") if row["batch_id"] == last}
    found = (row for row in rows(home, names.ANSWER_LOG) if row["event"] == "entry" and first < row["batch_id"] <= last)
    lose(home, names.ANSWER_LOG, next(row for row in found if (row["subscription_key"], row["object_key"]) in kept))


def lose_a_row_of_the_snapshot(home: Home) -> None:
    last = max(row["batch_id"] for row in rows(home, "answers"))
    row = next(row for row in rows(home, "answers") if row["batch_id"] == last and row["object_key"] is not None)
    lose(home, names.ANSWERS, row)


def change_the_ledger(home: Home) -> None:
    done = [row for row in rows(home, "batches") if row["status"] == "done" and row["changes"]]
    delete_rows(State(home.path), "batches", f"batch_id = {done[0]['batch_id']} AND status = 'done'")
    ledger_tables.append(State(home.path), "batches", [done[0] | {"changes": [("knn", 10**6)]}])


@pytest.mark.parametrize(
    ("damage", "figures"),
    [
        (lose_a_change, {"sums_off", "changes_off"}),
        (repeat_a_change, {"unpaired", "changes_off"}),
        (let_a_row_leave_twice, {"unpaired", "changes_off"}),
        (repeat_a_word, {"unpaired", "changes_off"}),
        (change_a_rank, {"ranks_off"}),
        (change_the_rank_of_a_word, {"ranks_off"}),
        (change_a_value, {"sums_off"}),
        (enter_the_answer_of_an_ended_subscription, {"dead", "sums_off"}),
        (report_before_the_start, {"dead"}),
        (enter_more_than_k, {"excess", "sums_off"}),
        (lose_an_entry_after_the_snapshot, {"sums_off"}),
        (lose_an_entry_between_the_snapshots, {"snapshot_off"}),
        (lose_a_row_of_the_snapshot, {"snapshot_off"}),
        (change_the_ledger, {"changes_off"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_fault_is_found(home: Home, damage: Callable[[Home], None], figures: set[str]) -> None:
    damage(home)
    assert off(home) >= figures


@pytest.mark.deep
@pytest.mark.parametrize(("damage", "figure"), [(repeat_a_word, "unpaired"), (report_before_the_start, "dead")])
def test_a_fault_of_a_report_is_found_after_an_erasure(home: Home, damage: Callable[[Home], None], figure: str) -> None:
    (thing,) = (row for row in rows(home, "objects") if row["object_key"] == present(home)[0]["object_key"])
    home.run("erase", "--object-id", thing["object_id"])
    assert off(home) == set()
    damage(home)
    assert off(home) >= {figure, "changes_off"}, "no row of a report was erased"
