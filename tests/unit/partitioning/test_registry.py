"""The dictionary of planners and what `make_plan` refuses."""

import pytest

from pststream import names
from pststream.cost.load_model import CostModel
from pststream.errors import UsageError
from pststream.partitioning.registry import PLANNERS, make_plan
from tests.plans import make_sample

COST = CostModel(1.0, 1.0, 1.0, 1.0)
NOTHING = make_sample([], [], [], [])


def test_has_the_names_that_all_share() -> None:
    assert tuple(PLANNERS) == names.PLANNERS


@pytest.mark.parametrize(
    ("name", "workers", "options", "told"),
    [
        ("voronoi", 8, {}, "hybrid, grid, kd_tree"),
        ("grid", 0, {}, "at least 1 worker"),
        ("kd_tree", 8, {"blocks": 8}, "no option 'blocks'"),
        ("grid", 8, {"blocks": 0}, "whole number of at least 1"),
        ("grid", 8, {"blocks": "8"}, "whole number of at least 1"),
        ("hybrid", 8, {"blocks": 8}, "no option 'blocks'"),
        ("hybrid", 8, {"theta": 0}, "whole number of at least 1"),
        ("hybrid", 8, {"sigma": 0.9}, "not a number of at least 1"),
        ("hybrid", 8, {"delta": "0.5"}, "not a number of at least 0"),
        ("hybrid", 8, {"delta": float("nan")}, "not a number of at least 0"),
        ("grid", 8, {"blocks": True}, "whole number of at least 1"),
    ],
)
def test_refuses(name: str, workers: int, options: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        make_plan(name, NOTHING, workers, COST, options)


@pytest.mark.parametrize("name", names.PLANNERS)
def test_a_plan_tells_its_options(name: str) -> None:
    plan = make_plan(name, NOTHING, 3, COST, {"columns": 20})
    assert plan.options["columns"] == plan.grid.columns == 20
    assert plan.options["rows"] == plan.grid.rows == 512
