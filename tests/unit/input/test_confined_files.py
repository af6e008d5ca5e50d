"""Files of a landing folder are opened without following a link out of it, whatever is put in their place meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pststream.base.errors import InputFileError
from pststream.input import confined_files
from pststream.input.confined_files import OUTSIDE, find_folders, open_below, readable_below
from pststream.input.input_files import sha256_of
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.pipeline.ingest.local_files import hash_files, read_stamps
from pststream.settings import Settings
from pststream.state import quarantine
from pststream.state.home import Home

SECRET = "TOKEN=abc-secret"
ROWS = "object_id,ts,lon,lat,text\na,2026-03-01T00:00:00Z,1,2,tea\n"


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """A landing folder with one sound file, next to a file that must not be read."""
    (tmp_path / "secret.csv").write_text(f"object_id,ts,lon,lat,text\n{SECRET},x,1,2,{SECRET}\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.csv").write_text(SECRET)
    (tmp_path / "landing" / "sub").mkdir(parents=True)
    (tmp_path / "landing" / "sub" / "a.csv").write_text(ROWS)
    return tmp_path / "landing"


def assert_not_disclosed(home: Home) -> None:
    for path in Path(home.path).rglob("*"):
        if path.is_file():
            assert b"secret" not in path.read_bytes(), path


def put_link(landing: Path) -> str:
    (landing / "b.csv").symlink_to(landing.parent / "secret.csv")
    return str(landing / "b.csv")


@pytest.mark.parametrize("pattern", ["", "*.csv", "**"])
def test_a_link_out_of_the_folder_is_skipped(hand_home: Home, landing: Path, pattern: str) -> None:
    link, said = put_link(landing), list[str]()
    (landing / "far").symlink_to(landing.parent / "elsewhere")
    done = ingest(hand_home, Settings(), "objects", [str(landing / pattern)], ReaderOptions(), said.append, True)
    assert done["files"] == (pattern != "*.csv") and done["rejected"] == 0 and done["quarantined"] == []
    assert link in done["passed_over"] and f"{link}: skipped: {OUTSIDE}" in said
    assert_not_disclosed(hand_home)


def test_a_command_on_the_folder_fails_and_one_on_the_link_reads_it(hand_home: Home, landing: Path) -> None:
    link = put_link(landing)
    with pytest.raises(InputFileError, match=OUTSIDE):
        ingest(hand_home, Settings(), "objects", [str(landing)], ReaderOptions())
    assert_not_disclosed(hand_home)
    assert ingest(hand_home, Settings(), "objects", [link], ReaderOptions())["rejected"] == 1


def test_a_watcher_names_the_folder_of_its_files(hand_home: Home, landing: Path) -> None:
    link = put_link(landing)
    done = ingest(
        hand_home, Settings(), "objects", [link], ReaderOptions(), quarantine_unreadable=True, folder=str(landing)
    )
    assert done["passed_over"] == [link]
    assert_not_disclosed(hand_home)


def test_a_link_between_hashing_and_reading_changes_nothing(
    hand_home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pststream.pipeline.ingest import ingest as module

    really_stage = module.stage_files

    def swap_and_stage(*arguments: object) -> object:
        os.rename(landing / "sub", landing / "was")
        (landing / "sub").symlink_to(landing.parent / "elsewhere")
        try:
            return really_stage(*arguments)  # type: ignore[arg-type]
        finally:
            (landing / "sub").unlink()
            os.rename(landing / "was", landing / "sub")

    monkeypatch.setattr(module, "stage_files", swap_and_stage)
    done = ingest(hand_home, Settings(), "objects", [str(landing)], ReaderOptions(), quarantine_unreadable=True)
    assert done["files"] == 0 and quarantine.read_entries(hand_home) == [] or done["quarantined"]
    assert_not_disclosed(hand_home)


def test_the_folder_may_be_a_link_and_links_within_it_are_followed(hand_home: Home, landing: Path) -> None:
    (landing / "..data").symlink_to("sub")
    (landing / "c.csv").symlink_to("..data/a.csv")
    (landing.parent / "alias").symlink_to(landing)
    with readable_below(str(landing.parent / "alias" / "c.csv"), str(landing.parent / "alias")) as path:
        assert Path(path).read_text() == ROWS and Path(path).name == "c.csv"
    done = ingest(hand_home, Settings(), "objects", [str(landing.parent / "alias")], ReaderOptions())
    assert (done["files"], done["files_skipped"], done["accepted"]) == (1, 1, 1)


def swap_file(landing: Path) -> None:
    (landing / "sub" / "a.csv").unlink()
    (landing / "sub" / "a.csv").symlink_to(landing.parent / "secret.csv")


def swap_folder(landing: Path) -> None:
    os.rename(landing / "sub", landing / "was")
    (landing / "sub").symlink_to(landing.parent / "elsewhere")


def make_pipe(landing: Path) -> None:
    (landing / "sub" / "a.csv").unlink()
    os.mkfifo(landing / "sub" / "a.csv")


@pytest.mark.parametrize("swap", [swap_file, swap_folder, make_pipe])
def test_a_link_after_the_check_is_not_followed(
    landing: Path, swap: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    really_resolve = confined_files._place

    def resolve_and_swap(path: str, folder: str) -> tuple[str, ...] | None:
        place = really_resolve(path, folder)
        swap(landing)
        return place

    monkeypatch.setattr(confined_files, "_place", resolve_and_swap)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InputFileError, match=OUTSIDE):
        open_below(str(landing / "sub" / "a.csv"), str(landing))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_after_the_open_is_not_read(landing: Path) -> None:
    with readable_below(str(landing / "sub" / "a.csv"), str(landing)) as path:
        swap_file(landing)
        assert Path(path).read_text() == ROWS


def test_files_that_are_named_have_no_folder(landing: Path) -> None:
    one, other = str(landing / "sub" / "a.csv"), str(landing / "b.csv")
    assert find_folders([one, other], [str(landing), one]) == {other: str(landing)}
    assert find_folders([one], [f"{landing}/*/a.csv"]) == {one: str(landing)}
    assert find_folders([one], [one]) == {}


def test_hashing_makes_no_folder_for_each_file(landing: Path, hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_files, "TemporaryDirectory", None)
    stamps, folders = read_stamps([str(landing / "sub" / "a.csv")]), {str(landing / "sub" / "a.csv"): str(landing)}
    (hashed,) = hash_files(hand_home, stamps, False, folders)
    assert hashed.sha256 == sha256_of(str(landing / "sub" / "a.csv"))


def test_a_path_without_links_needs_no_resolving(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_link(landing)
    (landing / "near").symlink_to(landing / "sub")
    (landing / "sub" / "up").symlink_to("..")
    (landing / "alias").symlink_to(landing)
    names = ["sub/a.csv", "b.csv", "near/a.csv", "sub/up/sub/a.csv", "near/../b.csv", "sub/../../secret.csv", "none"]
    paths = [f"{folder}/{name}" for folder in (landing, landing / "alias") for name in names]
    fast = [confined_files._place(path, path[: -len(name)]) for path, name in zip(paths, names * 2)]
    monkeypatch.setattr(confined_files, "_names_without_links", lambda path, folder: ())
    assert fast == [confined_files._place(path, path[: -len(name)]) for path, name in zip(paths, names * 2)]
    assert fast[0] == ("sub", "a.csv") and fast[1] is None and fast[5] is None
    monkeypatch.undo()
    monkeypatch.setattr(os.path, "realpath", None)
    assert not confined_files.leads_outside(paths[0], str(landing))
