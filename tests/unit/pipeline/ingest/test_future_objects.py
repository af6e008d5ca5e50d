"""Objects that are too far ahead of the clock: split from the others with their fields, exact to the microsecond."""

import pyarrow as pa
import pytest

from pststream.input.parse_objects import OBJECTS
from pststream.pipeline.ingest.stage_file import split_future_objects

LATEST = 1_790_000_000_000_000


def objects(*times: int) -> pa.RecordBatch:
    count = len(times)
    columns = [
        pa.array(range(1, count + 1), pa.int64()), pa.array([f"o{n}" for n in range(count)]),
        pa.array(times, pa.int64()).cast(OBJECTS.field("ts").type), pa.array([1.5] * count), pa.array([2.5] * count),
        pa.array(["coffee"] * count), pa.array([[7]] * count, pa.list_(pa.int64())),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=OBJECTS)


@pytest.mark.parametrize("times", [(), (0, LATEST), (LATEST,)])
def test_objects_up_to_the_latest_time_stay_as_they_are(times: tuple[int, ...]) -> None:
    rows = objects(*times)
    assert split_future_objects(rows, LATEST) == [rows]


def test_later_objects_become_rejects_with_their_fields() -> None:
    kept, future = split_future_objects(objects(0, LATEST + 1, LATEST, 3_000_000_000_000_000), LATEST)
    assert kept == objects(0, 0, LATEST).filter(pa.array([True, False, True])).set_column(
        0, "row", pa.array([1, 3])
    ).set_column(1, "object_id", pa.array(["o0", "o2"]))
    rows = future.to_pylist()
    assert [(row["row"], row["object_id"], row["field"], row["reason"]) for row in rows] == [
        (2, "o1", "ts", "future"), (4, "o3", "ts", "future")
    ]  # fmt: skip
    assert rows[0]["lon"] == 1.5 and rows[0]["text"] == "coffee" and "max_ahead_seconds" in rows[0]["detail"]
