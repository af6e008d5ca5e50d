"""Planners are found by name; `auto` takes the best on unseen objects, and baselines compare as in the papers."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.base.optional_packages import MissingExtra
from pststream.planning.live_terms import make_sample_with_reads
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.planning.planners import auto
from pststream.planning.planners.auto import keep_objects, run_sample, split_sample
from pststream.planning.planners.registry import (
    check_planner,
    load_planner,
    make_plan,
    place_sample,
    shares_by_subscription,
)
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.plan_rows import describe_choice
from pststream.plans.planner_sample import WorkloadSample, count_sample
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.places import city_places
from pststream.workloads.random_texts import PowerLaw
from pststream.workloads.synthetic_arrays import (
    SyntheticObjects,
    SyntheticSubscriptions,
    synthetic_objects,
    synthetic_subscriptions,
    term_ids,
)
from tests.paper_samples import paper_sample
from tests.plans import identical_plans, make_sample, pack, unpack

ONES = CostModel(1.0, 1.0, 1.0, 1.0)
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
        make_plan(name, NOTHING, workers, ONES, options)


@pytest.mark.parametrize("name", names.PLANNERS)
def test_a_plan_records_its_options_and_is_known_beforehand_to_share_by_subscription(name: str) -> None:
    plan = make_plan(name, NOTHING, 3, ONES, {"columns": 20})
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
        make_plan("hypergraph", NOTHING, 3, ONES)
    with pytest.raises(MissingExtra, match=message):
        check_planner("hypergraph", pytest.fail)


def test_auto_leaves_a_planner_without_its_package_out_and_says_so(no_partitioner: None) -> None:
    said: list[str] = []
    check_planner("auto", said.append)
    (sentence,) = said
    assert sentence.startswith("planner hypergraph is left out: mtkahypar is not installed")
    plan = make_plan("auto", NOTHING, 3, ONES)
    assert set(plan.options["choice"]["greatest_loads"]) == set(names.PLANNERS) - {"auto", "hypergraph"}


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


SPACE = ("grid", "kd_tree", "r_tree")
TEXT = ("frequency", "hypergraph", "metric")
BRITAIN = (-8.0, 49.5, 2.0, 59.0)
LARGE_LEXICON = PowerLaw(1_000_000, exponent=1.4, shift=20.0)
"""As in real tweets: 99% of the terms have only 7% of the occurrences."""


def rarest_clauses(subscriptions: SyntheticSubscriptions, frequency: np.ndarray) -> list[list[int]]:
    """Return the clause of each subscription whose terms have the fewest occurrences."""
    clauses = unpack(subscriptions.term_offsets, subscriptions.terms)
    slices = zip(subscriptions.clause_offsets[:-1].tolist(), subscriptions.clause_offsets[1:].tolist())
    return [min(clauses[start:stop], key=lambda clause: frequency[clause].sum()) for start, stop in slices]


def sample_of(objects: SyntheticObjects, subscriptions: SyntheticSubscriptions) -> WorkloadSample:
    frequency = np.bincount(objects.terms, minlength=objects.vocabulary.size)
    posts = [sorted(term_ids(np.array(clause)).tolist()) for clause in rarest_clauses(subscriptions, frequency)]
    terms = [sorted(term_ids(np.array(own)).tolist()) for own in unpack(objects.term_offsets, objects.terms)]
    term_offsets, term_list = pack(terms)
    post_offsets, post_list = pack(posts)
    keys = np.arange(len(posts))
    return make_sample_with_reads(
        lon=objects.lon,
        lat=objects.lat,
        term_offsets=term_offsets,
        terms=term_list,
        boxes=subscriptions.boxes,
        piece_key=keys,
        post_offsets=post_offsets,
        post_terms=post_list,
    )


def britain(style: SubscriptionStyle) -> Mapping[str, WorkerLoads]:
    """The loads of each baseline for 20,000 objects and as many subscriptions."""
    places = city_places("GB", BRITAIN)
    objects = synthetic_objects(20_000, 1, vocabulary=LARGE_LEXICON, local_share=0.0, places=places)
    sample = sample_of(objects, synthetic_subscriptions(20_000, 1, objects, style))
    return {name: compute_worker_loads(sample, make_plan(name, sample, 8, COST), COST) for name in SPACE + TEXT}


@pytest.fixture(scope="module")
def frequent() -> Mapping[str, WorkerLoads]:
    return britain(SubscriptionStyle("q1"))


@pytest.fixture(scope="module")
def rare() -> Mapping[str, WorkerLoads]:
    """Q2 with AND alone: with OR a subscription is posted under its frequent keywords as well."""
    return britain(SubscriptionStyle("q2", connective="and"))


@pytest.mark.deep
def test_space_beats_text_where_keywords_are_frequent(frequent: Mapping[str, WorkerLoads]) -> None:
    assert max(frequent[name].total for name in SPACE) < 0.6 * min(frequent[name].total for name in TEXT)


def test_text_beats_space_where_keywords_are_rare_and_regions_large(rare: Mapping[str, WorkerLoads]) -> None:
    assert max(rare[name].total for name in TEXT) < 0.9 * min(rare[name].total for name in SPACE)


def test_planners_that_know_which_terms_occur_together_save_load(frequent: Mapping[str, WorkerLoads]) -> None:
    for name in ("metric", "hypergraph"):
        assert frequent[name].total < frequent["frequency"].total


@pytest.mark.parametrize("name", SPACE + TEXT)
def test_no_worker_has_much_more_than_another(
    name: str, frequent: Mapping[str, WorkerLoads], rare: Mapping[str, WorkerLoads]
) -> None:
    assert frequent[name].imbalance < 1.5
    assert rare[name].imbalance < 1.5
