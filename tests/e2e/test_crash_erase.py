"""What a killed `erase` has begun is finished by `maintain`, whatever came in between."""

from pathlib import Path

import pytest

from pststream.state.erasures import load_pending
from pststream.state.home import Home as State
from tests.commands import KILLED
from tests.erased_homes import (
    OBJECT,
    SUBSCRIPTION,
    finish_world,
    marked_home,
    marked_world,
    twin_of,
    without,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

ERASE = ("erase", "--object-id", OBJECT, "--subscription-id", SUBSCRIPTION)


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
