"""Files that are ingested in many small parts give the same tables on every engine, also after interruptions."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pststream.pipeline.ingest import ingest_transaction, stage_file
from tests import worlds
from tests.commands import new_home
from tests.kill_and_rerun import accepted_in_order, rejected

pytestmark = [pytest.mark.spark, pytest.mark.deep]

COLUMNS = ("object_key", "object_id", "ts", "lon", "lat", "text", "terms")


class Interrupted(Exception):
    """Raised in place of a kill."""


def interrupt_at(step: str) -> Callable[[str], None]:
    def crash_point(name: str) -> None:
        if name == step:
            raise Interrupted(step)

    return crash_point


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_parts_give_the_tables_of_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """The files have repeated ids, late objects and bad rows."""
    log = worlds.object_log(random.Random(51), 240)
    files = [
        worlds.write_rows(tmp_path / f"{number}.{ending}", rows)
        for number, (ending, rows) in enumerate(zip(("csv", "jsonl", "csv"), worlds.cut(log, 3)))
    ]
    files.append(worlds.write_rows(tmp_path / "whole.csv.gz", worlds.object_log(random.Random(53), 90)))
    whole, split = (new_home(tmp_path / name, engine=engine, lateness_seconds=60) for name in ("whole", "split"))
    whole.ingest("objects", files)
    monkeypatch.setattr(stage_file, "choose_part_bytes", lambda sizes: 700)
    monkeypatch.setattr(stage_file, "WHOLE_FILE_ROWS", 20)
    for step in ("ingest.started", "ingest.objects_written", "ingest.rejects_written"):
        with monkeypatch.context() as patch:
            patch.setattr(ingest_transaction, "crash_point", interrupt_at(step))
            split.run("ingest", "objects", *files, code=1)
    split.ingest("objects", files)
    assert accepted_in_order(split, "objects", *COLUMNS) == accepted_in_order(whole, "objects", *COLUMNS)
    assert rejected(split) == rejected(whole)
    assert {reason for *_, reason in rejected(whole)} >= {"late", "duplicate", "missing", "out_of_range"}


def test_a_bad_end_refuses_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_file, "choose_part_bytes", lambda sizes: 700)
    rows = worlds.object_log(random.Random(52), 100)
    path = worlds.write_rows(tmp_path / "x.csv", rows)
    path.write_bytes(path.read_bytes() + b'x"y,"z\n' * 100)
    home = new_home(tmp_path / "home", engine="local")
    home.run("ingest", "objects", path, code=2)
    assert not accepted_in_order(home, "objects") and not rejected(home)
