"""Homes for tests that need no Spark."""

from pathlib import Path

import pytest

from pststream.state.home import Home
from tests.unit.reports.commands.homes import copy_of


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a new home, not to be written to."""
    path = tmp_path_factory.mktemp("empty") / "home"
    Home(path).init()
    return path


@pytest.fixture
def hand_home(empty_home: Path, tmp_path: Path) -> Home:
    """A new home to be filled by hand."""
    return copy_of(empty_home, tmp_path / "home")
