"""Folders for scratch homes go with their command, and those of killed commands later."""

import datetime as dt
from pathlib import Path

import pytest

from pststream.base.utc_times import utc_now
from pststream.state import scratch
from pststream.state.home import Home


def left(home: Home) -> list[str]:
    return home.files.names("scratch")


def test_a_folder_goes_at_the_end(hand_home: Home) -> None:
    with scratch.scratch_folder(hand_home) as one, scratch.scratch_folder(hand_home) as other:
        for address in (one, other):
            Home(f"{address}/home").init()
        assert one != other and one.startswith(f"{hand_home.path}/scratch/") and left(hand_home)
    assert left(hand_home) == [] and not Path(hand_home.path, "scratch").exists()


def test_what_killed_commands_have_left_goes(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError), scratch.scratch_folder(hand_home) as address:
        raise KeyError(address)
    monkeypatch.setattr(scratch, "_remove", lambda *_: None)
    for days in (0, 6, 8):
        monkeypatch.setattr(scratch, "utc_now", lambda days=days: utc_now() - dt.timedelta(days=days))
        with scratch.scratch_folder(hand_home) as address:
            Path(address, "home").mkdir(parents=True)
            Path(address, "home", "file").touch()
    monkeypatch.undo()
    scratch.remove_left_folders(hand_home)
    assert len(left(hand_home)) == 2
    scratch.remove_left_folders(hand_home, days=0)
    assert left(hand_home) == []
