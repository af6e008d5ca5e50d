"""Files are staged: unforeseen errors, future objects, files that a node does not see, damage, and judged rows."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pststream.base import names
from pststream.base.arrow_columns import ATTRIBUTES, BREAKS
from pststream.base.errors import InputFileError, RetryableError
from pststream.base.progress import no_progress
from pststream.input.input_files import sha256_of
from pststream.input.parse_objects import OBJECTS
from pststream.pipeline.ingest import ingest_transaction, landing_gate, stage_file
from pststream.pipeline.ingest.ingest_transaction import (
    finish_interrupted_ingest,
    load_staged,
    number_files,
    save_staged,
    stage_files,
)
from pststream.pipeline.ingest.stage_file import SCHEMAS, StagedFile, split_future_objects
from pststream.pipeline.ingest.staged_rows import StagedWriter
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.home import FORMAT, Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger
from pststream.tables.open_tables import latest_table
from tests.file_options import WITHOUT_BOUNDS


@pytest.fixture
def file(tmp_path: Path) -> dict[str, Any]:
    return {
        "file_seq": 1,
        "sha256": "0" * 64,
        "path": str(tmp_path / "a.jsonl"),
        "options": json.dumps({"format": "jsonl"}),
    }


def raising(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(*_: Any) -> Iterator[pa.RecordBatch]:
        raise error
        yield

    monkeypatch.setattr(stage_file, "_parse", parts)


def test_an_unforeseen_error_names_the_file(
    tmp_path: Path, file: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(ZeroDivisionError("by nought\nand more"), monkeypatch)
    staged = stage_file.stage_file("objects", str(tmp_path), dt.datetime.now(dt.UTC), file)
    assert staged.problem is not None
    path, reason, _ = staged.problem
    assert (
        path == file["path"] and "ZeroDivisionError in test_stage_file.py:" in reason and reason.endswith("by nought")
    )


@pytest.mark.parametrize("error", [OSError("no space left"), MemoryError()])
def test_an_error_of_the_machine_is_not_one_of_the_file(
    tmp_path: Path, file: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    raising(error, monkeypatch)
    with pytest.raises(type(error)):
        stage_file.stage_file("objects", str(tmp_path), dt.datetime.now(dt.UTC), file)


LATEST = 1_790_000_000_000_000


def objects(*times: int) -> pa.RecordBatch:
    count = len(times)
    columns = [
        pa.array(range(1, count + 1), pa.int64()), pa.array([f"o{n}" for n in range(count)]),
        pa.array(times, pa.int64()).cast(OBJECTS.field("ts").type), pa.array([1.5] * count), pa.array([2.5] * count),
        pa.array(["coffee"] * count), pa.nulls(count, BREAKS), pa.array([[7]] * count, pa.list_(pa.int64())),
        pa.nulls(count, ATTRIBUTES),
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


def stage_on_a_node(path: Path, there: bool, monkeypatch: pytest.MonkeyPatch, hold: bool) -> Any:
    """Stage a file that the node does not see; `there`: the driver sees it afterwards."""

    class OneNode:
        def run_tasks(self, files: Any, function: Any, ended: Any, seconds: Any) -> Any:
            staged = [function(file) for file in files]
            if there:
                path.write_text("object_id\n")
            return staged

    monkeypatch.setattr(ingest_transaction, "get_engine", lambda *_: OneNode())
    options = json.dumps(WITHOUT_BOUNDS)
    file = {"kind": "objects", "path": str(path), "started_at": dt.datetime.now(dt.UTC), "file_seq": 1, "bytes": 1}
    file |= {"options": options, "sha256": "0"}
    return ingest_transaction.stage_files(Home(path.parent / "home"), Settings(), [file], no_progress, hold)


def test_a_file_that_is_there_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RetryableError, match="a node does not see it"):
        stage_on_a_node(tmp_path / "objects.csv", True, monkeypatch, False)


def test_a_file_that_is_there_stops_no_landed_files_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (staged,) = stage_on_a_node(tmp_path / "objects.csv", True, monkeypatch, True)
    assert not staged.exists


def test_a_file_that_is_gone_is_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        stage_on_a_node(tmp_path / "objects.csv", False, monkeypatch, False)
    (staged,) = stage_on_a_node(tmp_path / "objects.csv", False, monkeypatch, True)
    assert not staged.exists


FILES = [{"sha256": "0"}]
OPTIONS = json.dumps(WITHOUT_BOUNDS | {"lateness_seconds": 3600})


@pytest.mark.parametrize(("format", "loaded"), [(FORMAT, []), (FORMAT - 1, None)])
def test_files_staged_before_an_upgrade_are_staged_again(hand_home: Home, format: int, loaded: list | None) -> None:
    save_staged(hand_home, FILES, [])
    path = Path(hand_home.path, "staging", "staged.json")
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"home_format": format}), "utf-8")
    assert load_staged(hand_home, FILES) == loaded
    assert load_staged(hand_home, [{"sha256": "1"}]) is None


def staged_in(home: Home, folder: Path) -> list[Path]:
    """Ingest two files up to the ledger, and return the staged files."""
    for name in "ab":
        rows = "".join(f"{name}{n},2026-03-01T00:00:{n:02}Z,1,2,tea\n" for n in range(40))
        (folder / f"{name}.csv").write_text("object_id,ts,lon,lat,text\n" + rows)
    settings, progress = Settings(engine="local"), no_progress
    offered = [
        {"kind": "objects", "path": str(path), "sha256": sha256_of(str(path)), "bytes": 1, "options": OPTIONS}
        for path in sorted(folder.glob("*.csv"))
    ]
    ledger = Ledger(home)
    files = number_files(ledger, offered)
    save_staged(home, files, stage_files(home, settings, files, progress))
    ledger_tables.append(home, names.FILES, files)
    return sorted(Path(home.path, "staging").glob("*.arrow"))


@pytest.mark.parametrize("damage", ["none", "zeros", "swapped", "short"])
def test_damaged_staged_files_are_staged_again(hand_home: Home, tmp_path: Path, damage: str) -> None:
    first, second = staged_in(hand_home, tmp_path)
    content = first.read_bytes()
    assert len(content) == second.stat().st_size
    if damage == "zeros":  # as after a power cut
        first.write_bytes(content[:512] + bytes(1024) + content[1536:])
    elif damage == "swapped":
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    elif damage == "short":
        first.write_bytes(content[:-1])
    loaded = load_staged(hand_home, Ledger(hand_home).unfinished_ingest())
    assert (loaded is None) == (damage != "none")
    with hand_home.locked():
        finish_interrupted_ingest(hand_home, Settings(engine="local"), no_progress)
    rows = read_table(hand_home.table(names.FILES)).filter(pc.field("status") == "done").to_pylist()
    assert [(Path(row["path"]).name, row["accepted"]) for row in rows] == [("a.csv", 40), ("b.csv", 40)]
    with latest_table(hand_home.table(names.OBJECTS)) as table:
        ids = table.to_pyarrow_table(columns=["object_id"])["object_id"].to_pylist()
    assert sorted(ids) == sorted(f"{name}{n}" for name in "ab" for n in range(40))


JUDGED_ROWS, BATCHES = 100, 4


@pytest.fixture
def staged(tmp_path: Path) -> StagedFile:
    """A file of 400 accepted rows, each with a text of 1,000 bytes."""
    writer = StagedWriter(str(tmp_path), SCHEMAS["objects"], 1_000)
    for start in range(0, BATCHES * JUDGED_ROWS, JUDGED_ROWS):
        rows = [{"row": start + place, "text": f"{start + place:04}" * 250} for place in range(JUDGED_ROWS)]
        writer.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMAS["objects"]))
    return StagedFile(1, writer.close(), BATCHES * JUDGED_ROWS, None)


@pytest.mark.parametrize(
    ("max_bytes", "limit", "judged"),
    [(1 << 28, 1_000, 400), (1 << 28, 300, 300), (150_000, 1_000, 100), (150_000, 50, 50), (10, 1_000, 1)],
)
def test_the_bytes_of_judged_rows_are_bounded(
    staged: StagedFile, monkeypatch: pytest.MonkeyPatch, max_bytes: int, limit: int, judged: int
) -> None:
    monkeypatch.setattr(landing_gate, "MAX_BYTES", max_bytes)
    rows = [landing_gate._read_rows(staged, "landed_objects", ["row", "text"], limit, "seed") for _ in range(2)]
    assert rows[0].num_rows == judged and rows[0].equals(rows[1])
    assert rows[0].column("text").to_pylist() == [f"{row:04}" * 250 for row in rows[0].column("row").to_pylist()]


def test_who_lands_a_file_cannot_know_which_rows_are_judged(tmp_path: Path) -> None:
    homes = [Home(tmp_path / name) for name in ("one", "other")]
    for home in homes:
        home.init()
    one, other = map(landing_gate._read_secret, homes)
    assert one == landing_gate._read_secret(homes[0]) and len({one, other, ""}) == 3
