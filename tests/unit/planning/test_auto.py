"""`auto` takes the plan of the planner that is best on a half of the sample that it has not seen, and says so."""

from dataclasses import replace

import numpy as np
import pytest

from pststream.base import names
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.planners import auto
from pststream.planning.planners.auto import keep_objects, run_sample, split_sample
from pststream.planning.planners.registry import make_plan, place_sample
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.plan_rows import describe_choice
from pststream.plans.planner_sample import WorkloadSample, count_sample
from tests.paper_samples import paper_sample
from tests.plans import identical_plans, make_sample, unpack

COST = CostModel(check=5e-9, object=4e-6, insert=1e-5, delete=5e-6)


def greatest_load(plan: PartitionPlan, seen: WorkloadSample, unseen: WorkloadSample) -> float:
    if isinstance(plan, SubscriptionPlan):
        return compute_worker_loads(place_sample(unseen, plan, count_sample(seen, plan.grid)), plan, COST).max
    return float(run_sample(unseen, plan).loads(unseen, COST).max())


@pytest.mark.parametrize(("kind", "workers", "unsampled"), [("q1", 4, 1.0), ("q2", 3, 3.0), ("q3", 8, 1.0)])
def test_takes_the_planner_that_is_best_on_the_unseen_half(kind: str, workers: int, unsampled: float) -> None:
    sample = replace(paper_sample(kind, 2000, 1000), subscription_scale=unsampled)
    plan = make_plan("auto", sample, workers, COST)
    halves = split_sample(sample)
    loads = dict.fromkeys((name for name in names.PLANNERS if name != "auto"), 0.0)
    for name in loads:
        for seen, unseen in (halves, halves[::-1]):
            loads[name] += greatest_load(make_plan(name, seen, workers, COST), seen, unseen) / 2
    choice = plan.options["choice"]
    assert choice == {"planner": min(loads, key=lambda name: loads[name]), "greatest_loads": pytest.approx(loads)}
    chosen = make_plan(choice["planner"], sample, workers, COST)
    assert plan.planner == "auto" and plan.options == {**chosen.options, "choice": choice}
    assert identical_plans(replace(plan, planner=chosen.planner, options=chosen.options), chosen)


def test_planners_are_those_of_the_list_when_it_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: names.PLANNERS[name] for name in ("grid", "dkm_sks", "auto")}
    monkeypatch.setattr(names, "PLANNERS", few)
    sample = paper_sample("q1", 500, 300)
    assert set(auto.plan(sample, 2, COST, {}).options["choice"]["greatest_loads"]) == {"grid", "dkm_sks"}
    assert set(auto.plan_by_space_or_terms(sample, 2, COST, {}).options["choice"]["greatest_loads"]) == {"grid"}


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["q1", "q2", "q3"])
def test_is_near_the_best_on_later_objects(kind: str) -> None:
    """At most 5% above the least greatest load of all planners, on 20,000 objects and 5,000 subscriptions of later."""
    sample, later = paper_sample(kind, 20_000, 5_000), paper_sample(kind, 40_000, 5_000)
    later = keep_objects(later, np.arange(40_000) >= 20_000)
    loads = {name: greatest_load(make_plan(name, sample, 8, COST), sample, later) for name in names.PLANNERS}
    assert loads["auto"] <= 1.05 * min(loads.values())


@pytest.mark.parametrize("unsampled", [1.0, 1.9, 2.0, 8.0])
def test_halves_have_every_object_once_and_stand_for_the_same_period(unsampled: float) -> None:
    sample = replace(paper_sample("q1", 2000, 400), subscription_scale=unsampled)
    halves = split_sample(sample)
    points = np.concatenate([np.column_stack([half.lon, half.lat]) for half in halves])
    assert sorted(points.tolist()) == sorted(np.column_stack([sample.lon, sample.lat]).tolist())
    for half in halves:
        assert 900 < half.objects < 1100
        assert half.objects * half.object_scale == pytest.approx(2000)
        first = np.flatnonzero((sample.lon == half.lon[0]) & (sample.lat == half.lat[0]))[0]
        mine, all_terms = unpack(half.term_offsets, half.terms)[0], unpack(sample.term_offsets, sample.terms)[first]
        assert mine == all_terms
        assert half.subscriptions * half.subscription_scale == pytest.approx(400 * unsampled)
    if unsampled < 2.0:
        assert all(half.piece_key.tolist() == sample.piece_key.tolist() for half in halves)
    else:
        keys = np.concatenate([half.piece_key for half in halves])
        assert sorted(keys.tolist()) == sample.piece_key.tolist()
        assert all(150 < half.subscriptions < 250 for half in halves)
        assert 0 < halves[0].reads.sum() < sample.reads.sum() / 3


def test_without_a_sample_the_planner_of_first_plans_is_taken() -> None:
    plan = make_plan("auto", make_sample([], [], [], []), 3, COST)
    assert plan.options["choice"]["planner"] == names.FIRST_PLANNER == "kd_tree"


def test_a_plan_for_balance_does_not_share_by_subscription() -> None:
    """Here the best plan shares by subscription; `balance` gets that of the best other planner, judged alike."""
    sample = paper_sample("q1", 2000, 1000)
    arguments = (sample, 4, COST, {"columns": 64, "rows": 64})
    best, movable = auto.plan(*arguments), auto.plan_by_space_or_terms(*arguments)
    assert isinstance(best, SubscriptionPlan) and not isinstance(movable, SubscriptionPlan)
    by_subscription = {"keyword_oriented", "space_oriented", "dkm_sks", "hash"}
    loads = best.options["choice"]["greatest_loads"]
    others = {name: load for name, load in loads.items() if name not in by_subscription}
    least = min(others, key=lambda name: others[name])
    assert movable.options["choice"] == {"planner": least, "greatest_loads": others}


def test_the_choice_is_described_with_the_least_first() -> None:
    choice = {"planner": "grid", "greatest_loads": {"hybrid": 2.0, "a_grid": 0.5, "grid": 0.5}}
    assert describe_choice(choice) == (
        "auto chose grid: the least seconds of the slowest worker on unseen objects, of grid 0.5, a_grid 0.5, hybrid 2"
    )
