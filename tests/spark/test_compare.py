"""The comparison of planners measures the real job on the data of a home, and changes nothing in it."""

import sys
from pathlib import Path

import pytest

from benchmarks.support.measured_homes import BenchHome
from pststream.base import names
from pststream.base.optional_packages import MissingExtra
from pststream.base.progress import no_progress
from pststream.pipeline.planning.plan import draw_sample, plan
from pststream.pipeline.replan import compare_planners
from pststream.pipeline.replan.compare_planners import Trial, compare
from pststream.pipeline.replan.proposal_file import same_plan
from pststream.planning.dispatch import make_dispatch
from pststream.settings import Settings
from pststream.state import home as state_home
from pststream.state.plans import load_plan
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from tests import worlds
from tests.commands import ingest_world, new_home


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_planners_find_the_same_and_the_home_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """Where tasks run on other machines, scratch homes are in the home."""
    monkeypatch.setattr(compare_planners, "runs_elsewhere", lambda _: elsewhere)
    made: list[str] = []
    init = state_home.Home.init

    def watch(home: state_home.Home, *arguments: int) -> bool:
        made.append(home.path)
        return init(home, *arguments)

    world = worlds.write_world(tmp_path, worlds.random_world(31, objects=200, requests=200), 31)
    home = new_home(tmp_path / "home", planner="grid", workers=3, lateness_seconds=world.lateness_seconds)
    ingest_world(home, world)
    before = sorted(str(path) for path in home.path.rglob("*") if path.is_file())
    monkeypatch.setattr(state_home.Home, "init", watch)
    planners = ("grid", "frequency", "kd_tree")
    document = home.run("plans", "compare", "--planners", ",".join(planners), "--out", tmp_path / "compared.html")
    assert sorted(str(path) for path in home.path.rglob("*") if path.is_file()) == before
    folder = home.path / ("scratch" if elsewhere else "compare")
    assert len(made) == 4 and all(Path(path).is_relative_to(folder) for path in made)
    home.match()
    assert document["matches"] >= len(home.exported()) > 0
    assert {figures["planner"] for figures in document["plans"]} == set(planners)
    throughputs = [figures["throughput"] for figures in document["plans"]]
    assert throughputs == sorted(throughputs, reverse=True)
    assert len({str(figures["worker_seconds"]) for figures in document["plans"]}) > 1
    assert {figures["planner"]: figures["copies"] for figures in document["plans"]}["frequency"] > 1
    assert {figures["planner"]: figures["copies"] for figures in document["plans"]}["grid"] == 1
    for figures in document["plans"]:
        assert figures["matches"] == document["matches"]
        assert len(figures["worker_seconds"]) == len(figures["model_seconds"]) == document["workers"] == 3
        assert figures["max_seconds"] == pytest.approx(max(figures["worker_seconds"]), abs=1e-3)
    page = (tmp_path / "compared.html").read_text("utf-8")
    assert "Planners compared" in page and "kd_tree" in page


def test_an_empty_home_or_an_unknown_planner_is_refused(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", planner="grid", workers=2, lateness_seconds=60)
    empty = home.run("plans", "compare", code=2)
    assert "ingest some first" in empty["error"]
    unknown = home.run("plans", "compare", "--planners", "magic", code=2)
    assert all(name in unknown["error"] for name in names.PLANNERS)


def test_a_planner_that_is_added_plans_and_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(names.PLANNERS, "stripes", "tests.conformance.stripes_planner")
    world = worlds.write_world(tmp_path, worlds.random_world(31, objects=100, requests=100), 31)
    home = new_home(tmp_path / "home", planner="stripes", workers=3, lateness_seconds=world.lateness_seconds)
    ingest_world(home, world)
    assert home.run("plan")["planner"] == "stripes"
    document = home.run("plans", "compare", "--planners", "stripes,grid")
    assert {figures["planner"] for figures in document["plans"]} == {"stripes", "grid"}


@pytest.mark.deep
@pytest.mark.parametrize("planner", ["hybrid", "kd_tree"])
def test_the_plan_that_is_measured_is_the_one_that_plan_makes(tmp_path: Path, planner: str) -> None:
    bench = BenchHome(str(tmp_path / "home"), 3, no_progress)
    style = SubscriptionStyle("q3")
    bench.add_subscriptions(4_000, style)
    bench.add_objects(4_000)
    bench.add_subscriptions(400, style, delete=400)
    settings = Settings(planner=planner, workers=5, max_ahead_seconds=0, cache_dir=str(tmp_path / "cache"))
    trial = Trial(bench.home, settings, planner, 4_000, tmp_path / "trial")
    figures = plan(bench.home, settings)
    assert same_plan(trial.plan, load_plan(bench.home, figures["plan_version"]))
    assert trial.plan_row["worker_loads"] == figures["worker_loads"]
    sample, _ = draw_sample(bench.home, settings)
    assert (sample.insertions, sample.deletions) == pytest.approx((400 / 4_400, 400 / 4_400))


@pytest.mark.deep
def test_auto_and_the_planner_that_it_chose_share_their_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planners = ("grid", "kd_tree", "auto")
    monkeypatch.setattr(names, "PLANNERS", {name: names.PLANNERS[name] for name in planners})
    bench = BenchHome(str(tmp_path / "home"), 3, no_progress)
    bench.add_subscriptions(2_000, SubscriptionStyle("q1"))
    bench.add_objects(2_000)
    settings = Settings(workers=4, max_ahead_seconds=0, cache_dir=str(tmp_path / "cache"), engine="local")
    plans = {one["planner"]: one for one in compare(bench.home, settings, planners, 2_000, rounds=2)["plans"]}
    chosen = plans["auto"]["made_by"]
    assert chosen in ("grid", "kd_tree")
    (other,) = set(planners) - {"auto", chosen}
    seconds = {name: plans[name]["worker_seconds"] for name in planners}
    assert seconds["auto"] == seconds[chosen] != seconds[other]


def test_a_planner_without_its_package_is_left_out_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "PLANNERS", {name: names.PLANNERS[name] for name in ("grid", "hypergraph")})
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    monkeypatch.delitem(sys.modules, names.PLANNERS["hypergraph"], raising=False)
    bench = BenchHome(str(tmp_path / "home"), 3, no_progress)
    bench.add_subscriptions(200, SubscriptionStyle("q1"))
    bench.add_objects(200)
    settings = Settings(workers=2, max_ahead_seconds=0, cache_dir=str(tmp_path / "cache"), engine="local")
    said: list[str] = []
    plans = compare(bench.home, settings, objects=200, progress=said.append)["plans"]
    assert [one["planner"] for one in plans] == ["grid"]
    assert said[0].startswith("planner hypergraph is left out: mtkahypar is not installed")
    with pytest.raises(MissingExtra, match=r"pststream\[hypergraph\]"):
        compare(bench.home, settings, ["grid", "hypergraph"], progress=pytest.fail)


@pytest.mark.deep
def test_memory_is_that_of_the_arrays(tmp_path: Path) -> None:
    bench = BenchHome(str(tmp_path / "home"), 3, no_progress)
    bench.add_subscriptions(4_000, SubscriptionStyle("q1"))
    bench.add_objects(2_000)
    settings = Settings(workers=3, max_ahead_seconds=0, cache_dir=str(tmp_path / "cache"))
    trial = Trial(bench.home, settings, "plain_kd_tree", 2_000, tmp_path / "trial")
    cached = [file.stat().st_size for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert len(trial.worker_bytes) == 3 and trial.worker_bytes.min() > 0
    assert 0.9 * sum(cached) < trial.worker_bytes.sum() <= sum(cached)
    without_filter = make_dispatch(trial.plan).nbytes
    assert trial.dispatch_bytes >= without_filter + 8 * (1 << 10)
    assert trial.figures()["worker_bytes"] == round(trial.worker_bytes.mean())
