"""A backup is one moment of a home, whatever is committed while it is made."""

import hashlib
import stat
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pststream.base import names
from pststream.base.errors import HomeBusy, HomeError, RetryableError, UsageError
from pststream.pipeline.upkeep import backup as module
from pststream.pipeline.upkeep.backup import backup
from pststream.state import ledger_tables, locks, quarantine
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table, table_version
from tests.unit.reports.commands.homes import add_file


@pytest.fixture
def home(hand_home: Home) -> Home:
    write(hand_home, 1)
    return hand_home


def write(home: Home, number: int) -> None:
    ledger_tables.append(
        home,
        names.VOCABULARY,
        [{"plan_version": number, "term_id": 1, "term": "tea", "objects": 1, "subscriptions": 1}],
    )


def numbers(home: Home) -> list[int]:
    return sorted(read_table(home.table(names.VOCABULARY)).column("plan_version").to_pylist())


def test_a_backup_is_a_home_that_goes_on(home: Home, tmp_path: Path) -> None:
    told = backup(home, str(tmp_path / "copy"))
    copy = Home(tmp_path / "copy").check()
    assert numbers(copy) == [1]
    assert told["tables"] == {name: table_version(home.table(name)) for name in told["tables"]}
    write(copy, 2)
    assert (numbers(copy), numbers(home)) == ([1, 2], [1])
    with pytest.raises(UsageError, match="already"):
        backup(home, str(tmp_path / "copy"))


def test_a_backup_is_for_its_user_alone(home: Home, tmp_path: Path) -> None:
    backup(home, str(tmp_path / "copy"))
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


def test_a_table_whose_log_begins_with_a_checkpoint(home: Home, tmp_path: Path) -> None:
    for number in range(2, 6):
        write(home, number)
    table = DeltaTable(home.table(names.VOCABULARY))
    table.create_checkpoint()
    for old in range(3):
        (Path(home.table(names.VOCABULARY)) / "_delta_log" / f"{old:020}.json").unlink()
    write(home, 6)
    backup(home, str(tmp_path / "copy"))
    assert numbers(Home(tmp_path / "copy").check()) == [1, 2, 3, 4, 5, 6]


def test_what_is_committed_during_the_copying_is_not_in_it(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_file, ahead = module._copy, iter(range(2, 99))

    def copied(home: Home, name: str, root: Path) -> None:
        write(home, next(ahead, 99))
        copy_file(home, name, root)

    monkeypatch.setattr(module, "_copy", copied)
    backup(home, str(tmp_path / "copy"))
    assert numbers(Home(tmp_path / "copy").check()) == [1]
    assert len(numbers(home)) > 10


def test_the_versions_are_read_until_they_stand_still(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, ahead = module._versions, iter([2, 3, 4])

    def moving(home: Home) -> dict[str, int]:
        found = read(home)
        for number in ahead:
            write(home, number)
            break
        return found

    monkeypatch.setattr(module, "_versions", moving)
    backup(home, str(tmp_path / "copy"))
    assert numbers(Home(tmp_path / "copy").check()) == [1, 2, 3, 4]


def test_a_home_that_is_always_written_to_is_held_for_the_reading(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, ahead = module._versions, iter(range(2, 99))

    def moving(home: Home) -> dict[str, int]:
        found = read(home)
        if locks.holder_process(Path(home.path, ".lock")) is None:
            write(home, next(ahead))
        return found

    monkeypatch.setattr(module, "_versions", moving)
    monkeypatch.setattr(module, "MAX_READINGS", 3)
    backup(home, str(tmp_path / "copy"))
    assert numbers(Home(tmp_path / "copy").check()) == [1, 2, 3, 4, 5]


def test_the_file_of_an_unfinished_retry_is_in_it(home: Home, tmp_path: Path) -> None:
    """Else no ingest could go on in the restored home: only the home has this file."""
    add_file(home, "objects", [], done=False)
    row = read_table(home.table(names.FILES)).to_pylist()[0]
    for number, name in enumerate(("needed", "unneeded"), 2):
        home.files.write(f"retries/{name}.parquet", b"rows")
        path = {"path": f"{home.path}/retries/{name}.parquet", "file_seq": number, "ingest_id": number}
        if name == "needed":
            ledger_tables.append(home, names.FILES, [row | path])
    backup(home, str(tmp_path / "copy"))
    assert [path.name for path in (tmp_path / "copy" / "retries").iterdir()] == ["needed.parquet"]


def test_only_the_end_of_a_log_is_copied(home: Home, tmp_path: Path) -> None:
    for number in range(2, 6):
        write(home, number)
    DeltaTable(home.table(names.VOCABULARY)).create_checkpoint()
    write(home, 6)
    backup(home, str(tmp_path / "copy"))
    copied = sorted(path.name for path in Path(tmp_path, "copy/tables/vocabulary/_delta_log").iterdir())
    assert [name for name in copied if name.endswith(".json")] == [f"{version:020}.json" for version in (5, 6)]
    assert numbers(Home(tmp_path / "copy").check()) == [1, 2, 3, 4, 5, 6]


def test_a_home_that_another_holds_and_writes_to(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(10_000))
    monkeypatch.setattr(module, "_versions", lambda home: {"t": next(count)})
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    with home.locked(), pytest.raises(HomeBusy):
        backup(home, str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_a_log_that_is_cut_during_the_copying(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = module._versions

    def then_cut(home: Home) -> dict[str, int]:
        found = read(home)
        (Path(home.table(names.VOCABULARY)) / "_delta_log" / f"{0:020}.json").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(module, "_versions", then_cut)
    with pytest.raises(RetryableError, match="log was trimmed"):
        backup(home, str(tmp_path / "copy"))


def test_a_file_that_goes_during_the_copying(home: Home, tmp_path: Path) -> None:
    (file,) = Path(home.table(names.VOCABULARY)).glob("*.parquet")
    file.unlink()
    with pytest.raises(RetryableError, match="was removed"):
        backup(home, str(tmp_path / "copy"))
    with pytest.raises(HomeError):
        Home(tmp_path / "copy").check()


def test_held_files_are_in_it(home: Home, tmp_path: Path) -> None:
    offered = tmp_path / "bad.csv"
    offered.write_text("bad", "utf-8")
    file = {
        "kind": "objects",
        "path": str(offered),
        "sha256": hashlib.sha256(b"bad").hexdigest(),
        "bytes": 3,
        "options": "{}",
    }
    with home.locked():
        quarantine.add_entries(home, [(file, ["it is bad"])], 1)
    backup(home, str(tmp_path / "copy"))
    copy = Home(tmp_path / "copy")
    (hold,) = quarantine.read_entries(copy)
    assert (Path(copy.path) / hold["copy"]).read_text("utf-8") == "bad"
