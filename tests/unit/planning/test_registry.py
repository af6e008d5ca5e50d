"""Planners are found by name, and `make_plan` rejects unknown planners and options."""

import subprocess
import sys

import pytest

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.optional_packages import MissingExtra
from pststream.planning.load_model import CostModel
from pststream.planning.planners.registry import check_planner, load_planner, make_plan, shares_by_subscription
from pststream.plans.plan import SubscriptionPlan
from tests.plans import make_sample

COST = CostModel(1.0, 1.0, 1.0, 1.0)
NOTHING = make_sample([], [], [], [])


@pytest.mark.parametrize("name", names.PLANNERS)
def test_loads_the_function_of_the_named_module(name: str) -> None:
    planner = load_planner(name)
    assert (planner.__module__, planner.__name__) == (names.PLANNERS[name], "plan")


def test_the_registry_imports_no_planner_before_it_is_used() -> None:
    code = "import sys, pststream.planning.planners.registry as r, pststream.base.names as n; " \
        "print(sorted(set(sys.modules) & set(n.PLANNERS.values())))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "workers", "options", "message"),
    [
        ("voronoi", 8, {}, "hybrid, grid, kd_tree"),
        ("grid", 0, {}, "at least 1 worker"),
        ("kd_tree", 8, {"blocks": 8}, "no option 'blocks'"),
        ("grid", 8, {"blocks": 0}, "whole number of at least 1"),
        ("grid", 8, {"blocks": "8"}, "whole number of at least 1"),
        ("hybrid", 8, {"blocks": 8}, "no option 'blocks'"),
        ("auto", 8, {"blocks": 8}, "no option 'blocks'"),
        ("hybrid", 8, {"objective": "least"}, "max, sum"),
        ("hybrid", 8, {"theta": 0}, "whole number of at least 1"),
        ("hybrid", 8, {"sigma": 0.9}, "not a number of at least 1"),
        ("hybrid", 8, {"delta": "0.5"}, "not a number of at least 0"),
        ("hybrid", 8, {"delta": float("nan")}, "not a number of at least 0"),
        ("grid", 8, {"blocks": True}, "whole number of at least 1"),
        ("kd_tree", 8, {"columns": 4097}, "more than 4096"),
        ("a_grid", 8, {"rows": 10**20}, "more than 4096"),
        ("auto", 8, {"rows": 10**9}, "more than 4096"),
        ("r_tree", 8, {"leaves": 10**20}, "more than 2147483647"),
        ("hypergraph", 8, {"seed": 2**31}, "more than 2147483647"),
    ],
)
def test_rejects(name: str, workers: int, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_plan(name, NOTHING, workers, COST, options)


@pytest.mark.parametrize("name", names.PLANNERS)
def test_a_plan_records_its_options_and_is_known_beforehand_to_share_by_subscription(name: str) -> None:
    plan = make_plan(name, NOTHING, 3, COST, {"columns": 20})
    assert plan.options["columns"] == plan.grid.columns == 20
    assert plan.options["rows"] == plan.grid.rows == (1000 if name == "a_grid" else 512)
    assert name == names.AUTO or shares_by_subscription(name) == isinstance(plan, SubscriptionPlan)


@pytest.fixture
def no_partitioner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the package of the planner `hypergraph` away."""
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    monkeypatch.delitem(sys.modules, names.PLANNERS["hypergraph"], raising=False)


def test_without_its_package_a_planner_names_the_extra(no_partitioner: None) -> None:
    message = r"(?s)mtkahypar is not installed.*'pststream\[hypergraph\]'"
    with pytest.raises(MissingExtra, match=message):
        make_plan("hypergraph", NOTHING, 3, COST)
    with pytest.raises(MissingExtra, match=message):
        check_planner("hypergraph", pytest.fail)


def test_auto_leaves_a_planner_without_its_package_out_and_says_so(no_partitioner: None) -> None:
    said: list[str] = []
    check_planner("auto", said.append)
    (sentence,) = said
    assert sentence.startswith("planner hypergraph is left out: mtkahypar is not installed")
    plan = make_plan("auto", NOTHING, 3, COST)
    assert set(plan.options["choice"]["greatest_loads"]) == set(names.PLANNERS) - {"auto", "hypergraph"}
