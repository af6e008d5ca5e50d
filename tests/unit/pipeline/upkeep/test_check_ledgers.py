"""The check of the ledgers on homes written by hand: no fault in a sound one, and each fault that can be."""

from pststream.base import names
from pststream.pipeline.upkeep.check_tables import count_ledger_faults
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import log_key
from tests.damage import delete_rows
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, halves, insertion, reject, thing


def off(home: Home) -> dict[str, int]:
    return {figure: value for figure, value in count_ledger_faults(home).items() if value}


def filled(home: Home) -> Home:
    """Three objects, of which a batch took two; two requests; a reject."""
    add_plan(home, halves())
    add_file(home, "objects", [thing(row, f"o{row}") for row in (1, 2, 4)], [reject(3, "out_of_range")])
    add_file(home, "requests", [insertion(row, f"s{row}") for row in (1, 2)])
    add_batch(home, objects_to=log_key(1, 3), done=False)
    done = {**read_table(home.table(names.BATCHES)).to_pylist()[0], "status": "done", "objects": 2, "requests": 2}
    ledger_tables.append(home, names.BATCHES, [done | {"matches": 0, "retractions": 0, "seconds_by_step": []}])
    return home


def test_an_empty_home_and_a_sound_one(hand_home: Home) -> None:
    assert off(hand_home) == {}
    assert off(filled(hand_home)) == {}


def test_what_a_batch_counted(hand_home: Home) -> None:
    filled(hand_home)
    delete_rows(hand_home, names.OBJECTS, "object_id = 'o1'")
    assert off(hand_home) == {"objects_off": -1, "matched_off": 1}


def test_objects_of_a_file_that_a_batch_cut_are_counted_up_to_the_cut(hand_home: Home) -> None:
    filled(hand_home)
    delete_rows(hand_home, names.OBJECTS, "object_id = 'o4'")
    assert off(hand_home) == {"objects_off": -1}


def test_rows_twice(hand_home: Home) -> None:
    filled(hand_home)
    for name in (names.REQUESTS, names.REJECTS):
        ledger_tables.append(hand_home, name, read_table(hand_home.table(name)))
    assert off(hand_home) == {"requests_off": 2, "rejects_off": 1}


def test_a_started_file_leaves_row_counts_undefined(hand_home: Home) -> None:
    filled(hand_home)
    add_file(hand_home, "requests", [insertion(1, "s3")], done=False)
    assert off(hand_home) == {"unfinished_files": 1}


def test_batches_that_are_unfinished_missing_or_with_gaps(hand_home: Home) -> None:
    filled(hand_home)
    add_batch(hand_home, done=False)
    assert off(hand_home) == {"unfinished_batches": 1}
    delete_rows(hand_home, names.BATCHES, "batch_id = 1")
    assert off(hand_home) == {"unfinished_batches": 1, "missing_batches": 1, "batch_gaps": 1}


def test_watermarks(hand_home: Home) -> None:
    filled(hand_home)
    add_file(hand_home, "objects", [thing(1, "o9", 60)])  # written by hand with no watermark
    assert off(hand_home) == {"wrong_watermarks": 1}


def test_units_of_plans_and_of_a_planner_that_was_killed(hand_home: Home) -> None:
    filled(hand_home)
    units = read_table(hand_home.table(names.PLAN_UNITS))
    later = units.set_column(0, "plan_version", ledger_tables.pa.array([2] * units.num_rows))
    ledger_tables.append(hand_home, names.PLAN_UNITS, later)
    assert off(hand_home) == {}, "what a killed planner left"
    delete_rows(hand_home, names.PLAN_UNITS, "plan_version = 1 AND unit = 0")
    assert off(hand_home) == {"units_off": -1}
