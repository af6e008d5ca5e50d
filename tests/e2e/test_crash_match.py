"""A SIGKILL at any step of `plan` or `match`, followed by a second run, does not change the result.

Homes go through all steps one after the other, a fresh file or batch for each: killed at the step in a process of
its own, run again in this one. In the end all is as in a home that nobody disturbed, and as the twin says.
"""

from pathlib import Path

import pytest

from tests.kill_and_rerun import assert_as_the_twin, assert_same_tables, home_for, killed_then_run, written

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2500)]

MATCH_STEPS = {
    "local": ("started", "indexed", "matched", "loads_written", "done"),
    "spark": ("indexed", "matched"),
}
"""Steps by engine; those before and after the tasks are the same code under both."""

PLAN_STEPS = {"local": ("units_written", "indexed", "done"), "spark": ("indexed",)}


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_plan_and_match_killed_at_each_step(tmp_path: Path, engine: str) -> None:
    match_steps, plan_steps = MATCH_STEPS[engine], PLAN_STEPS[engine]
    world = written(tmp_path / "files", 22, len(match_steps))
    home, undisturbed = (home_for(tmp_path / name, world, engine=engine) for name in ("killed", "undisturbed"))
    for one in (home, undisturbed):
        one.ingest("requests", world.requests[:1])
        one.ingest("objects", world.objects[:1])
    for n, (step, asked, things) in enumerate(zip(match_steps, world.requests, world.objects)):
        for one in (home, undisturbed):
            one.ingest("objects", [things])
            one.ingest("requests", [asked])
        undisturbed.match()
        if n < len(plan_steps):
            planner = ("grid", "kd_tree")[n % 2]
            killed_then_run(home, f"plan.{plan_steps[n]}", "plan", "--planner", planner, "--workers", str(2 + n))
        killed_then_run(home, f"match.{step}", "match", "--until-empty")
        assert home.exported() == undisturbed.exported(), f"killed at match.{step}"
    assert_same_tables(home, undisturbed)
    assert_as_the_twin(home, world.log, world.lateness_seconds)
