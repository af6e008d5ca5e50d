"""A planner is added as one module and one line: the line in `names.PLANNERS`, which these tests patch in."""

import pytest

from pststream.base import names
from pststream.base.errors import SettingError, UsageError
from pststream.cli.arguments import build_parser
from pststream.settings import load_settings
from tests.conformance import test_planners as battery

NAME = "stripes"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(names.PLANNERS, NAME, "tests.conformance.stripes_planner")
    return NAME


def test_is_unknown_without_its_line() -> None:
    with pytest.raises(UsageError, match="'stripes' is unknown"):
        battery.small_plan(NAME, battery.NAMED["nothing"], 3)
    with pytest.raises(SettingError):
        load_settings(None, planner=NAME)


def test_passes_the_battery(added: str) -> None:
    battery.test_plans_are_complete_and_pure(name=added)


@pytest.mark.parametrize("world", battery.NAMED)
def test_named_worlds(added: str, world: str) -> None:
    battery.test_named_worlds(added, world, 3)


def test_the_setting_and_the_commands_accept_it(added: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_settings(None, planner=added).planner == added
    assert build_parser().parse_args(["plan", "--planner", added]).chosen_planner == added
    with pytest.raises(SystemExit):
        build_parser().parse_args(["plan", "--help"])
    assert added in capsys.readouterr().out
