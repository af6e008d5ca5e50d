"""A SIGKILL at any step of `erase`, followed by a second run or by `maintain`, removes what one run removes."""

from pathlib import Path

import pytest

from pststream.state.erasures import load_pending
from pststream.state.home import APPEND_ONLY
from pststream.state.home import Home as State
from tests.commands import KILLED, Home
from tests.erased_homes import (
    OBJECT,
    SUBSCRIPTION,
    finish_world,
    marked_home,
    marked_world,
    places_with,
    raw_files_with,
    refuse_messages,
    twin_of,
    without,
)
from tests.kill_and_rerun import table_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

STEPS = ("started", "recorded", "removed", "removed", "removed", "restored", "files_deleted", "vacuumed", "vacuumed")
ERASE = ("erase", "--object-id", OBJECT, "--subscription-id", SUBSCRIPTION)


def assert_erased(home: Home, twin: Home) -> None:
    """Assert that nothing is left, that all is consistent, and that the other pairs are those of the twin."""
    assert load_pending(State(home.path)) is None and places_with(home.path) == []
    assert home.run("check", "--all")["success"]
    assert home.exported() == without(twin.exported(), {OBJECT}, {SUBSCRIPTION})
    for name in ("objects", "requests", "matches", "rejects", "dead_letters"):
        assert table_of(home, name).metadata().configuration[APPEND_ONLY] == "true"


def test_erase_killed_at_each_step(tmp_path: Path) -> None:
    """Each try finishes what the one before began, up to its own step."""
    world = marked_world(tmp_path / "files", 5)
    home = marked_home(tmp_path / "home", world)
    twin = twin_of(home)
    refuse_messages(home)
    for step in STEPS:
        ended = home.crash(f"erase.{step}", *ERASE, "--vacuum-now")
        assert ended.code == KILLED, f"{step}: ended with {ended.code}\n{ended.err[-3000:]}"
    home.run(*ERASE)
    assert_erased(home, twin)
    assert raw_files_with(home.path) == []
    for one in (home, twin):
        finish_world(one, world)
    wanted = without(twin.exported(), {OBJECT}, {SUBSCRIPTION})
    assert without(home.exported(), {OBJECT}, {SUBSCRIPTION}) == wanted
    assert home.run("check", "--all")["success"]


def test_work_goes_on_between_the_kill_and_the_second_run(tmp_path: Path) -> None:
    """Batches between the two add matches of rows that are still there; they go too."""
    world = marked_world(tmp_path / "files", 6)
    home = marked_home(tmp_path / "home", world)
    twin = twin_of(home)
    for step in ("started", "removed", "removed", "removed"):
        assert home.crash(f"erase.{step}", *ERASE).code == KILLED
    finish_world(home, world)
    finish_world(twin, world)
    home.run("maintain")
    assert load_pending(State(home.path)) is None
    assert home.run("check", "--all")["success"]
    wanted = without(twin.exported(), {OBJECT}, {SUBSCRIPTION})
    assert without(home.exported(), {OBJECT}, {SUBSCRIPTION}) == wanted


def test_maintain_killed_while_it_removes_old_rows(tmp_path: Path) -> None:
    world = marked_world(tmp_path / "files", 8)
    home = marked_home(tmp_path / "home", world)
    undisturbed = twin_of(home)
    keep = ("maintain", "--keep", "objects=1d,matches=1d")
    for step in ("recorded", "removed", "removed"):
        assert home.crash(f"keep.{step}", *keep).code == KILLED
    home.run(*keep)
    assert undisturbed.run(*keep)["rows_expired"]["objects"] > 20
    assert home.run("check", "--all")["success"]
    for name in ("objects", "matches"):
        assert table_of(home, name).metadata().configuration[APPEND_ONLY] == "true"
        assert (
            table_of(home, name).to_pyarrow_table().num_rows == table_of(undisturbed, name).to_pyarrow_table().num_rows
        )
    assert home.exported() == undisturbed.exported()
