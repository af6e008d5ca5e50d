"""Make a plan on request: of the kinds that a planner serves, or of `topk`."""

from dataclasses import replace
from typing import Any

from pststream.base import names
from pststream.base.errors import PstError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.pipeline.planning.plan import plan
from pststream.pipeline.replan.balance import balance
from pststream.pipeline.replan.plan_topk import plan_topk
from pststream.reports.commands.plans import show_plan
from pststream.reports.commands.topk_plan import show_topk_plan
from pststream.settings import Settings, check_planners
from pststream.state.home import Home


def make_plan(
    home: Home,
    settings: Settings,
    planner: str | None = None,
    kinds: str | None = None,
    *,
    planner_options: str | None = None,
    from_version: int | None = None,
    to_version: int | None = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make a new plan version; return what `plan` or `plan_topk` returns.

    planner          None: that of the setting, or of the plan of `topk` in force
    kinds            whose plan is made; None: those that the planner serves
    planner_options  of the planner of `topk`; the others take those of the settings
    from_version, to_version
                     of the Delta table `objects`, between which the sample is drawn; not of `topk`
    """
    kinds = kinds or names.kinds_served(planner)
    if planner is not None:
        check_planners((planner,), kinds)
    if kinds != names.TOPK_KINDS:
        chosen = settings if planner is None else replace(settings, planner=planner)
        return plan(home, chosen, dry_run=dry_run, versions=(from_version, to_version), progress=progress)
    for option, version in (("--from-version", from_version), ("--to-version", to_version)):
        if version is not None:
            raise UsageError(f"{option} does not apply to plan --kinds {names.TOPK_KINDS}", "leave it out")
    # The first plan of the other kinds, which `plan_topk` makes if there is none, has the options of the setting.
    of_setting = home.load_settings().planner_options
    chosen = replace(settings, planner_options=of_setting)
    return plan_topk(home, chosen, planner, options=planner_options, dry_run=dry_run, progress=progress)


def repartition(
    home: Home,
    settings: Settings,
    *,
    planner: str | None,
    kinds: str | None,
    workers: int | None,
    from_version: int | None,
    to_version: int | None,
    progress: Progress,
    dry_run: bool,
    **files: Any,
) -> dict[str, Any]:
    """Make a new partitioning as `balance` of the kind `global`, whose `files` are its proposal and its page.

    Another number of workers, or a sample of some versions of the table `objects`, needs a plan with an index of its
    own, whatever its gain, and so does the plan of `topk`: `make_plan` makes it. The document has the keys of that of
    `balance` in any case; those that `make_plan` does not compute are None.
    """
    kinds = kinds or names.kinds_served(planner)
    if planner is not None:
        check_planners((planner,), kinds)
    if kinds != names.TOPK_KINDS and (workers, from_version, to_version) == (None, None, None):
        chosen = settings if planner is None else replace(settings, planner=planner)
        return balance(home, chosen, "global", dry_run=dry_run, progress=progress, **files)
    settings = home.load_settings(workers=workers)
    before = _plan_in_force(home, kinds)
    made = make_plan(
        home,
        settings,
        planner,
        kinds,
        from_version=from_version,
        to_version=to_version,
        dry_run=dry_run,
        progress=progress,
    )
    loads = "unit_loads" if kinds == names.TOPK_KINDS else "worker_loads"  # the planner `hash` of topk gives none
    over = "topk" if kinds == names.TOPK_KINDS else f"{made['workers']} workers"
    return {
        "kind": "plan",
        "dry_run": dry_run,
        "reason": f"requested: {made['planner']} over {over}, {made['units']} units",
        "plan_version_before": before["plan_version"],
        "plan_version_after": made["plan_version"],
        "measured_imbalance": None,
        "moved_subscriptions": None,
        "moved_bytes": None,
        "expected_gain": None,
        "moves": [],
        "load_before": before.get(loads, []),
        "load_after": made.get(loads, []),
        "seconds": made["seconds"],
    }


def _plan_in_force(home: Home, kinds: str) -> dict[str, Any]:
    """Return the plan in force as `plans show` does; its version alone, 0, if there is none."""
    try:
        return (show_topk_plan if kinds == names.TOPK_KINDS else show_plan)(home.check())
    except PstError:
        return {"plan_version": 0}
