"""Make a plan on request: of the kinds that a planner serves, or of `topk`."""

from dataclasses import replace
from typing import Any

from pststream.base import names
from pststream.base.errors import PstError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.pipeline.planning.plan import plan
from pststream.pipeline.replan.balance import balance
from pststream.pipeline.replan.plan_topk import plan_topk
from pststream.pipeline.replan.proposal_file import has_proposal, read_proposal
from pststream.planning.planners.registry import shares_by_subscription
from pststream.plans.imbalance import finite_imbalance, imbalance_of
from pststream.reports.commands.plans import show_plan, show_topk_plan
from pststream.settings import Settings, check_planners
from pststream.state.home import Home
from pststream.state.plans import current_version, numbers_in_index
from pststream.storage.registry import Address


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

    For another number of workers the subscriptions migrate to the new plan, and what is returned also has the keys of
    the document of `balance`.

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
        before = current_version(home.check())
        in_force = len(numbers_in_index(home, before)) if before else 0
        if (from_version, to_version) == (None, None) and migrates(in_force, chosen):
            return _change_workers(home, chosen, dry_run, progress)
        return plan(home, chosen, dry_run=dry_run, versions=(from_version, to_version), progress=progress)
    for option, version in (("--from-version", from_version), ("--to-version", to_version)):
        if version is not None:
            raise UsageError(f"{option} does not apply to plan --kinds {names.TOPK_KINDS}", "leave it out")
    # The first plan of the other kinds, which `plan_topk` makes if there is none, has the options of the setting.
    of_setting = home.load_settings().planner_options
    chosen = replace(settings, planner_options=of_setting)
    return plan_topk(home, chosen, planner, options=planner_options, dry_run=dry_run, progress=progress)


def migrates(in_force: int, settings: Settings) -> bool:
    """Whether a new plan is made by a migration: it is for another number of workers, and not shared by subscription.

    in_force: workers of the plan in force, 0 if there is none
    """
    shares = settings.planner != names.AUTO and shares_by_subscription(settings.planner)
    return in_force not in (0, settings.workers) and not shares


def _change_workers(home: Home, settings: Settings, dry_run: bool, progress: Progress) -> dict[str, Any]:
    """Make a plan for another number of workers; return what `make_plan` returns."""
    document = balance(home, settings, "plan", dry_run=dry_run, progress=progress)
    loads = document["load_after"]
    return document | {
        "plan_version": document["plan_version_after"], "worker_loads": loads, "load_total": sum(loads),
        "load_max": max(loads), "load_min": min(loads), "imbalance": finite_imbalance(imbalance_of(loads), None),
        "sigma": settings.sigma,
    }  # fmt: skip


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
    proposal: Address | None = None,
    page: Address | None = None,
) -> dict[str, Any]:
    """Make a new partitioning as `balance` of the kind `global`, or for another number of workers of the kind `plan`.

    A sample of some versions of the table `objects` needs a plan with an index of its own, whatever its gain, and so
    does the plan of `topk`: `make_plan` makes it, without a proposal and a page. The document has the keys of that of
    `balance` in any case; those that `make_plan` does not compute are None.
    """
    kinds = kinds or names.kinds_served(planner)
    if planner is not None:
        check_planners((planner,), kinds)
    before = _plan_in_force(home, kinds)
    if kinds != names.TOPK_KINDS and (from_version, to_version) == (None, None):
        in_force = before.get("workers", settings.workers)
        chosen = replace(settings, planner=planner or settings.planner, workers=workers or in_force)
        kind = "plan" if migrates(in_force, chosen) else "global"
        if proposal is not None and not dry_run and has_proposal(proposal):
            kind = read_proposal(proposal).kind  # it may have been applied already
        if kind == "plan" or workers is None:
            return balance(home, chosen, kind, dry_run=dry_run, proposal=proposal, page=page, progress=progress)
    settings = home.load_settings(workers=workers)
    versions: dict[str, Any] = {"from_version": from_version, "to_version": to_version}
    made = make_plan(home, settings, planner, kinds, **versions, dry_run=dry_run, progress=progress)
    loads = "unit_loads" if kinds == names.TOPK_KINDS else "worker_loads"  # the planner `hash` of topk gives none
    over = "topk" if kinds == names.TOPK_KINDS else f"{made['workers']} workers"
    return {
        "kind": "plan",
        "dry_run": dry_run,
        "reason": f"requested: {made['planner']} over {over}, {made['units']} units",
        "plan_version_before": before["plan_version"],
        "plan_version_after": made["plan_version"],
        "measured_imbalance": None,
        **dict.fromkeys(("moved_subscriptions", "moved_bytes", "least_bytes")),
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
