"""Kill commands with SIGKILL at a step, run them again, and compare the tables with an undisturbed home."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from pststream.state.home import Home as State
from pststream.tables.open_tables import open_table
from tests import worlds
from tests.commands import KILLED, Home, new_home
from tests.oracles import twin
from tests.oracles.twin_rows import LogFile
from tests.worlds import WrittenWorld


def written(folder: Path, seed: int, files: int) -> WrittenWorld:
    """Write a world with this number of files of each kind."""
    folder.mkdir()
    source = worlds.random_world(seed, objects=30 * files, requests=25 * files, files=1)
    things, asked = source.object_files[0], source.request_files[0]
    recut = worlds.World(worlds.cut(things, files), worlds.cut(asked, files), source.lateness_seconds)
    return worlds.write_world(folder, recut, seed)


def home_for(path: Path, world: WrittenWorld, **settings: Any) -> Home:
    """Make a home for a world, with some settings changed."""
    return new_home(path, planner="kd_tree", workers=3, lateness_seconds=world.lateness_seconds, **settings)


def killed_then_run(home: Home, step: str, *arguments: str | Path) -> Any:
    """Kill a command at a step, then run it again to its end."""
    result = home.crash(step, *arguments)
    assert result.code == KILLED, f"{step}: ended with {result.code}\n{result.err[-3000:]}"
    return home.run(*arguments)


def accepted_in_order(home: Home, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table in the order of the log."""
    key = f"{table[:-1]}_key"
    rows = table_of(home, table).to_pyarrow_table(columns=[key, *columns]).to_pylist()
    keys = [row[key] for row in rows]
    assert len(keys) == len(set(keys)), f"a row of {table} was written twice"
    return [tuple(row[c] for c in columns) for row in sorted(rows, key=lambda row: row[key])]


def rejected(home: Home, landing: str | Path = "") -> Counter[tuple[Any, ...]]:
    """Count the rejected rows, with file names relative to `landing`."""
    columns = ["kind", "file", "row", "field", "reason"]
    rows = table_of(home, "rejects").to_pyarrow_table(columns=columns).to_pylist()
    relative = [row | {"file": row["file"].removeprefix(str(landing))} for row in rows]
    return Counter(tuple(row[c] for c in columns) for row in relative)


def table_of(home: Home, name: str) -> DeltaTable:
    """Open a Delta table of a home."""
    return open_table(State(home.path).table(name))


def assert_same_tables(home: Home, undisturbed: Home, landings: tuple[str | Path, str | Path] = ("", "")) -> None:
    """Assert equal tables, except for times, numbers of runs, and locations of the input files."""
    for table, columns in (
        ("objects", ("object_id", "ts", "lon", "lat", "text", "terms")),
        ("requests", ("op", "owner", "subscription_id", "effective_at", "expires_at", "clauses")),
    ):
        assert accepted_in_order(home, table, *columns) == accepted_in_order(undisturbed, table, *columns)
    assert rejected(home, landings[0]) == rejected(undisturbed, landings[1])
    assert home.exported() == undisturbed.exported()


def assert_as_the_twin(home: Home, log: list[LogFile], lateness_seconds: int) -> None:
    exported = home.exported()
    assert len(exported) == len(set(exported))
    assert set(exported) == twin.outcome_of(log, lateness_seconds).matches


def landed_log(home: Home, files: Iterable[Path]) -> list[LogFile]:
    """Return the landed files in the order of the log, and which files of objects one round has judged together."""
    path_of = {path.name: path for path in files}
    rows = table_of(home, "files").to_pyarrow_table(columns=["file_seq", "kind", "path", "options"]).to_pylist()
    rounds = {row["file_seq"]: json.loads(row["options"]).get("judged_by", "none") for row in rows}
    log, before = list[LogFile](), "none"
    for row in sorted({row["file_seq"]: row for row in rows}.values(), key=lambda row: row["file_seq"]):
        judged_by = rounds[row["file_seq"]] if row["kind"] == "objects" else "none"
        same = judged_by != "none" and judged_by == before
        log.append(LogFile(row["kind"], path_of[Path(row["path"]).name], same_round=same))
        before = judged_by if row["kind"] == "objects" else before
    return log
