"""`answers` and `export answers` read the last snapshot and the changes after it: they show the sum of all changes."""

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from pststream.reports.reading import standing_answers
from pststream.state.data_files import list_data_files
from pststream.state.home import Home as State
from tests.commands import Home, new_home
from tests.worlds import moment, write_rows

Row = dict[str, Any]

POINT = {"lon": 0.0, "lat": 0.0}
KINDS: tuple[Row, ...] = (
    {"kind": "knn", "keywords": "*", "point": POINT, "k": 3},
    {"kind": "knn", "keywords": "*", "point": POINT, "k": 2, "window": "3h"},
    {"kind": "topk", "point": POINT, "k": 2, "keywords": "tea cake", "alpha": 0.5, "window": {"objects": 10}},
    {"kind": "frequent_terms", "bbox": [-9.0, -9.0, 9.0, 9.0], "k": 2, "window": "2h", "step": "1h"},
    {"kind": "frequent_terms", "bbox": [50.0, 50.0, 51.0, 51.0], "k": 2, "window": "2h", "step": "1h"},
)


def insertions() -> list[Row]:
    """Two of each kind, one of which ends early."""
    head = {"op": "insert", "created_at": moment(0)}
    return [
        head | own | {"subscription_id": f"s{2 * number + ends}", "expires_at": moment(30) if ends else None}
        for number, own in enumerate(KINDS)
        for ends in (False, True)
    ]


def things(first: int, count: int) -> list[Row]:
    rnd = random.Random(first)
    return [
        {
            "object_id": f"o{n}",
            "ts": moment(n),
            "lon": rnd.uniform(-5, 5),
            "lat": rnd.uniform(-5, 5),
            "text": " ".join(rnd.sample(("tea", "cake", "zoo"), 2)),
        }
        for n in range(first, first + count)
    ]


def matched(home: Home, folder: Path, first: int, count: int) -> None:
    home.ingest("objects", [write_rows(folder / f"o{first}.jsonl", things(first, count))])
    home.match()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a snapshot after three batches, and two batches after it."""
    folder = tmp_path_factory.mktemp("answers")
    home = new_home(folder / "home", engine="local", workers=2, max_ahead_seconds=0)
    home.ingest("requests", [write_rows(folder / "r.jsonl", insertions())])
    for batch in range(3):
        matched(home, folder, 20 * batch, 20)
    home.run("maintain")
    matched(home, folder, 60, 20)
    home.run("withdraw", "--object-id", "o79", "--object-id", "o70")
    home.match()
    return home


def with_times(rows: list[Row]) -> list[Row]:
    """The rows with times in place of their texts, of which `answers` and the file have two forms."""
    read = dt.datetime.fromisoformat
    return [row | {name: row[name] and read(row[name]) for name in ("ts", "as_of")} for row in rows]


def listed(home: Home, *arguments: str) -> tuple[list[Row], bool]:
    """The rows that `answers` lists, and whether these are all."""
    document = home.run("answers", *arguments)
    return with_times(document["answers"]), document["complete"]


def exported(home: Home, what: str = "answers") -> list[Row]:
    """The rows of `export answers` or `export changes`."""
    path = home.path.parent / f"{what}.jsonl"
    home.run("export", what, "--out", path)
    return with_times([json.loads(line) for line in path.read_text().splitlines()])


@pytest.mark.parametrize("most_read", [1, standing_answers.MOST_READ])
def test_each_limit_gives_the_first_rows(home: Home, monkeypatch: pytest.MonkeyPatch, most_read: int) -> None:
    monkeypatch.setattr(standing_answers, "MOST_READ", most_read)
    every = exported(home)
    assert {row["kind"] for row in every} == {"knn", "topk", "frequent_terms"}
    for limit in (1, 2, 3, len(every) - 1, len(every), 1000):
        assert listed(home, "--limit", str(limit)) == (every[:limit], limit >= len(every))


def test_of_one_subscription(home: Home) -> None:
    every = exported(home)
    for number in range(len(insertions())):
        mine = [row for row in every if row["subscription_id"] == f"s{number}"]
        assert listed(home, f"s{number}") == (mine, True)


def test_changes_before_the_snapshot_are_not_read(home: Home, tmp_path: Path) -> None:
    expected = [row for row in exported(home) if row["kind"] != "frequent_terms"]
    state = State(home.path)
    (snapshot,) = {file.high["batch_id"] for file in list_data_files(state, names.ANSWERS)}
    older = [file for file in list_data_files(state, names.ANSWER_LOG) if file.high["batch_id"] <= snapshot]
    hidden = [Path(state.table(names.ANSWER_LOG), file.path) for file in older]
    assert any(file.partition == {"part": "change"} for file in older)
    for number, path in enumerate(hidden):
        path.rename(tmp_path / str(number))
    try:
        rows = [row for number in range(6) for row in listed(home, f"s{number}")[0]]
        assert rows == expected
    finally:
        for number, path in enumerate(hidden):
            (tmp_path / str(number)).rename(path)
