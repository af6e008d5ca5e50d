"""A SIGKILL at any step of `plan` or `match`, followed by a second run, does not change the result.

Homes go through all steps one after the other, a fresh file or batch for each: killed at the step in a process of
its own, run again in this one. In the end all is as in a home that nobody disturbed, and as the twin says.
"""

from pathlib import Path

import pytest

from tests.kill_and_rerun import assert_as_the_twin, assert_same_tables, home_for, killed_then_run, written

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2500)]

MATCH_STEPS = ("started", "indexed", "matched", "loads_written", "done")
PLAN_STEPS = ("units_written", "indexed", "done")


def test_plan_and_match_killed_at_each_step(tmp_path: Path) -> None:
    world = written(tmp_path / "files", 22, len(MATCH_STEPS))
    home, undisturbed = (home_for(tmp_path / name, world) for name in ("killed", "undisturbed"))
    for one in (home, undisturbed):
        one.ingest("requests", world.requests[:1])
        one.ingest("objects", world.objects[:1])
    for n, (step, asked, things) in enumerate(zip(MATCH_STEPS, world.requests, world.objects)):
        for one in (home, undisturbed):
            one.ingest("objects", [things])
            one.ingest("requests", [asked])
        undisturbed.match()
        if n < len(PLAN_STEPS):
            planner = ("grid", "kd_tree")[n % 2]
            killed_then_run(home, f"plan.{PLAN_STEPS[n]}", "plan", "--planner", planner, "--workers", str(2 + n))
        killed_then_run(home, f"match.{step}", "match", "--until-empty")
        assert home.exported() == undisturbed.exported(), f"killed at match.{step}"
    assert_same_tables(home, undisturbed)
    assert_as_the_twin(home, world.log, world.lateness_seconds)
