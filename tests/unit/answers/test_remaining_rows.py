"""The rows of changes that still are in answers, on hand-made rows."""

import pyarrow as pa

from pststream.answers.contract import remaining_rows

TYPES = {"batch_id": pa.int64(), "event": pa.string(), "subscription_key": pa.int64(), "object_key": pa.int64(),
         "ts": pa.timestamp("us", tz="UTC"), "term": pa.string()}  # fmt: skip


def changes(*rows: tuple) -> pa.Table:
    """Make rows: batch, event, subscription, object, ts, term."""
    columns = list(zip(*rows)) or [()] * len(TYPES)
    return pa.table({name: pa.array(column, type_) for (name, type_), column in zip(TYPES.items(), columns)})


def test_an_object_that_left_is_in_no_answer_until_it_enters_again() -> None:
    rows = changes(
        (1, "entered", 7, 100, 5, None), (1, "entered", 8, 100, 5, None), (2, "left", 7, 100, 5, None),
        (3, "entered", 7, 100, 5, None), (4, "left", 8, 100, 5, None), (4, "entered", 8, 100, 5, None),
        (4, "left", 7, 100, 5, None),
    )  # fmt: skip
    assert sorted(remaining_rows(rows).tolist()) == [5]
    assert remaining_rows(changes()).tolist() == []


def test_of_reports_the_last_tick_stays_and_those_from_a_tick_on() -> None:
    rows = changes(
        (1, "entered", 7, None, 10, "fire"), (1, "entered", 7, None, 20, "fire"), (1, "entered", 7, None, 20, "smoke"),
        (1, "entered", 7, None, 30, "fire"), (2, "left", 7, None, 20, "smoke"), (1, "entered", 8, None, 10, "tea"),
        (2, "entered", 9, 100, 5, None),
    )  # fmt: skip
    assert sorted(remaining_rows(rows).tolist()) == [3, 5, 6]
    assert sorted(remaining_rows(rows, 20).tolist()) == [1, 3, 5, 6]
