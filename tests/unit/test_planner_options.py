"""Options of a planner are read from one text: numbers, words, and errors that say what is wrong."""

import pytest

from pststream.base.errors import SettingError
from pststream.settings import read_planner_options


def test_values_have_the_types_that_planners_check() -> None:
    options = read_planner_options(" theta=64, delta=0.3,objective=sum,")
    assert options == {"theta": 64, "delta": 0.3, "objective": "sum"}
    assert [type(value) for value in options.values()] == [int, float, str]
    assert read_planner_options("") == {}


@pytest.mark.parametrize("text", ["delta", "delta=", "=3", "Delta=3", "delta=1,delta=2", "a b=3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="planner_options"):
        read_planner_options(text)
