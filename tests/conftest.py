"""Fixtures shared by several folders of tests."""

import gc
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from pststream.base.atomic_files import VARIABLE
from tests.commands import Home, new_home
from tests.cpu_times import (  # noqa: F401
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_terminal_summary,
)
from tests.fuzz.cases import scale

ROOT = Path(__file__).parents[1]

# Tests flush nothing to disk, unless they are about that; commands that they start inherit this.
os.environ.setdefault(VARIABLE, "0")

settings.register_profile("any machine", deadline=None, max_examples=scale(100))
settings.load_profile("any machine")


# The half million objects that collecting the tests makes stay to the end, and no garbage is among them.
gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector look through later objects only, and as seldom as in a process of a command."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process whole files, and all files of tests/dags to one: their Airflow has one database."""
    from xdist.scheduler import LoadScopeScheduling

    class FileScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "tests/dags" if nodeid.startswith("tests/dags/") else nodeid.partition("::")[0]

    return FileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of Airflow first, then files with slow tests, so that processes finish at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith("tests/dags/"), item.path not in slow))


_DEEP = re.compile(r"^pytestmark = (?:\[.*)?pytest\.mark\.deep\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of deep tests where none of them runs: to import all tests takes each process seconds."""
    if collection_path.suffix == ".py" and "not deep" in config.option.markexpr:
        return bool(_DEEP.search(collection_path.read_text("utf-8"))) or None
    return None


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Make a new home with the default settings."""
    return new_home(tmp_path / "home")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real data files: PSTSTREAM_REAL_DATA, or `shared/data` next to the checkout; or skip."""
    folder = Path(os.environ.get("PSTSTREAM_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: set PSTSTREAM_REAL_DATA to its folder")
    return folder
