"""Staged files are used after a crash only if they are whole and of this format; otherwise they are staged again."""

import json
from pathlib import Path

import pyarrow.compute as pc
import pytest

from pststream.base import names
from pststream.base.progress import no_progress
from pststream.input.input_files import sha256_of
from pststream.pipeline.ingest.ingest_transaction import (
    finish_interrupted_ingest,
    load_staged,
    number_files,
    save_staged,
    stage_files,
)
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.home import FORMAT, Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import Ledger
from pststream.tables.open_tables import latest_table
from tests.file_options import WITHOUT_BOUNDS

FILES = [{"sha256": "0"}]
OPTIONS = json.dumps(WITHOUT_BOUNDS | {"lateness_seconds": 3600})


@pytest.mark.parametrize(("format", "loaded"), [(FORMAT, []), (FORMAT - 1, None)])
def test_files_staged_before_an_upgrade_are_staged_again(tmp_path: Path, format: int, loaded: list | None) -> None:
    home = Home(tmp_path / "home")
    home.init()
    save_staged(home, FILES, [])
    path = Path(home.path, "staging", "staged.json")
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"home_format": format}), "utf-8")
    assert load_staged(home, FILES) == loaded
    assert load_staged(home, [{"sha256": "1"}]) is None


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
def test_damaged_staged_files_are_staged_again(tmp_path: Path, damage: str) -> None:
    home = Home(tmp_path / "home")
    home.init()
    first, second = staged_in(home, tmp_path)
    content = first.read_bytes()
    assert len(content) == second.stat().st_size
    if damage == "zeros":  # as after a power cut
        first.write_bytes(content[:512] + bytes(1024) + content[1536:])
    elif damage == "swapped":
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    elif damage == "short":
        first.write_bytes(content[:-1])
    loaded = load_staged(home, Ledger(home).unfinished_ingest())
    assert (loaded is None) == (damage != "none")
    with home.locked():
        finish_interrupted_ingest(home, Settings(engine="local"), no_progress)
    rows = read_table(home.table(names.FILES)).filter(pc.field("status") == "done").to_pylist()
    assert [(Path(row["path"]).name, row["accepted"]) for row in rows] == [("a.csv", 40), ("b.csv", 40)]
    with latest_table(home.table(names.OBJECTS)) as table:
        ids = table.to_pyarrow_table(columns=["object_id"])["object_id"].to_pylist()
    assert sorted(ids) == sorted(f"{name}{n}" for name in "ab" for n in range(40))
