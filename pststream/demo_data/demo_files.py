"""Write the input files of `pststream demo`: six hourly files of objects around real cities, and three of requests."""

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pststream.demo_data.demo_requests import first_requests, later_requests
from pststream.demo_data.demo_texts import HOURS, demo_objects
from pststream.demo_data.faulty_rows import BAD_OBJECTS, BAD_REQUESTS, HOSTILE_OBJECTS, LATE_TIMES
from pststream.demo_data.standing_subscriptions import standing_subscriptions
from pststream.generator.generated_objects import SCHEMA
from pststream.table_files import input_file

_ENDINGS = (".csv", ".csv", ".jsonl.gz", ".parquet", ".csv", ".csv")
_DUPLICATES = 3


@dataclass(frozen=True)
class DemoFiles:
    """The files of a demo in the order in which they are ingested, and the number of rows with deliberate errors.

    requests                    of subscriptions that match; request_rows: their number
    answer_requests             of subscriptions with memory
    bad_objects, late_objects, duplicate_objects, bad_requests   rows that the ingest must reject
    """

    objects: tuple[str, ...]
    requests: tuple[str, ...]
    object_rows: int
    request_rows: int
    bad_objects: int
    late_objects: int
    duplicate_objects: int
    bad_requests: int
    answer_requests: tuple[str, ...]


def write_demo(
    folder: str | os.PathLike[str], seed: int, *, objects: int = 60_000, subscriptions: int = 20_000
) -> DemoFiles:
    """Write the files of the demo below `folder`: `objects/`, with an hour of texts in each file, and `requests/`.

    objects        number of texts, without those with deliberate errors; at least 100
    subscriptions  number of generated subscriptions, besides about forty hand-written ones; at least 20

    The same arguments give the same bytes.
    """
    # Divide the objects by hour, and add rows with deliberate errors to the last two hours.
    rows = demo_objects(objects, seed)
    hours = [rows.take(pa.array(numbers)) for numbers in np.array_split(np.arange(len(rows)), HOURS)]
    wrong: list[list[dict]] = [[] for _ in hours]
    wrong[4] = [*hours[1].slice(0, _DUPLICATES).to_pylist(), *BAD_OBJECTS]
    wrong[5] = [*HOSTILE_OBJECTS, *(_late(number, ts) for number, ts in enumerate(LATE_TIMES))]
    paths = []
    for hour, table in enumerate(hours):
        path = Path(folder) / "objects" / f"2026-03-01T{6 + hour:02}{_ENDINGS[hour]}"
        _write_objects(path, table, wrong[hour])
        paths.append(str(path))
    # Write the requests before and during the morning.
    first = Path(folder) / "requests" / "2026-03-01T05.jsonl"
    later = Path(folder) / "requests" / "2026-03-01T11.jsonl"
    requests = _write_requests(first, first_requests(subscriptions, seed))
    requests += _write_requests(later, later_requests(subscriptions, seed))
    answers = Path(folder) / "requests" / "2026-03-01T05-answers.jsonl"
    _write_requests(answers, standing_subscriptions())
    return DemoFiles(
        objects=tuple(paths),
        requests=(str(first), str(later)),
        object_rows=len(rows) + sum(map(len, wrong)),
        request_rows=requests,
        bad_objects=len(BAD_OBJECTS),
        late_objects=len(LATE_TIMES),
        duplicate_objects=_DUPLICATES,
        bad_requests=len(BAD_REQUESTS),
        answer_requests=(str(answers),),
    )


def _late(number: int, ts: str) -> dict:
    """Return an object that comes too late."""
    return {"object_id": f"late{number}", "ts": ts, "lon": 9.19, "lat": 45.46, "text": "from the day before"}


def _write_objects(path: Path, table: pa.Table, wrong: list[dict]) -> None:
    """Write a file of objects; a file with faulty rows is written as CSV, as their values do not fit the schema."""
    if not wrong:
        with input_file(path, SCHEMA) as writer:
            writer.write(table)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, SCHEMA.names, lineterminator="\n")
        rows.writeheader()
        rows.writerows(table.to_pylist())
        rows.writerows(wrong)


def _write_requests(path: Path, rows: list[dict]) -> int:
    """Write a file of requests; return the number of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return len(rows)
