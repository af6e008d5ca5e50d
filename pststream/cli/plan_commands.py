"""Run the commands that make plans and compare planners; return document and text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pststream import names
from pststream.cli.command import CommandContext, CommandResult, check_output_path, refuse_options
from pststream.cli.result_texts import describe_plan, describe_topk_plan
from pststream.errors import UsageError
from pststream.settings import load_settings

NEWEST = 1_000_000
"""Objects that planners are compared on, unless another number is given."""


def plan_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Make a new plan version."""
    planner = arguments.chosen_planner
    kinds = arguments.kinds or names.kinds_served(planner)
    if planner is not None:
        check_planners((planner,), kinds)
    if kinds == names.TOPK_KINDS:
        return _plan_topk(context, arguments)
    from pststream.pipeline.planning.plan import plan

    settings = context.settings if planner is None else replace(context.settings, planner=planner)
    versions = (arguments.from_version, arguments.to_version)
    document = plan(context.home, settings, dry_run=arguments.dry_run, versions=versions, progress=context.progress)
    return CommandResult(document, describe_plan(document, arguments.dry_run))


def _plan_topk(context: CommandContext, arguments: Any) -> CommandResult:
    from pststream.pipeline.adjusting.plan_topk import plan_topk

    options = {"--from-version": arguments.from_version, "--to-version": arguments.to_version}
    refuse_options(f"plan --kinds {names.TOPK_KINDS}", options)
    # The first plan of the other kinds, which `plan_topk` makes if there is none, has the options of the setting.
    of_setting = load_settings(context.home.path).planner_options
    document = plan_topk(
        context.home,
        replace(context.settings, planner_options=of_setting),
        arguments.chosen_planner,
        options=arguments.planner_options,
        dry_run=arguments.dry_run,
        progress=context.progress,
    )
    return CommandResult(document, describe_topk_plan(document))


def compare_plans_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Compare planners by running each in a scratch home with the newest objects."""
    if arguments.kinds == names.TOPK_KINDS:
        return _compare_topk(context, arguments)
    from pststream.pipeline.comparing.compare_planners import compare
    from pststream.reports.commands.planner_comparison import render_comparison
    from pststream.reports.pages.comparison_page import write_comparison

    planners = _chosen_planners(arguments, names.REGION_KINDS)
    check_output_path(arguments.out)
    objects = arguments.objects or NEWEST
    document = compare(context.home, context.settings, planners, objects, progress=context.progress)
    if arguments.out:
        write_comparison(document, arguments.out)
        document["out"] = arguments.out
    return CommandResult(document, render_comparison(document))


def _compare_topk(context: CommandContext, arguments: Any) -> CommandResult:
    from pststream.pipeline.comparing.compare_topk import compare_topk
    from pststream.reports.commands.topk_comparison import render_topk_comparison

    refuse_options("plans compare --kinds topk", {"--objects": arguments.objects, "--out": arguments.out})
    planners = _chosen_planners(arguments, names.TOPK_KINDS)
    document = compare_topk(context.home, context.settings, planners, context.progress)
    return CommandResult(document, render_topk_comparison(document))


def _chosen_planners(arguments: Any, kinds: str) -> tuple[str, ...]:
    """Return the planners to compare; default: all that serve the kinds."""
    planners = tuple(arguments.planners.split(",")) if arguments.planners else tuple(names.PLANNERS_OF[kinds])
    check_planners(planners, kinds)
    return planners


def check_planners(planners: Sequence[str], kinds: str) -> None:
    """Raise UsageError if one of some planners does not serve the kinds."""
    known = names.PLANNERS_OF[kinds]
    unknown = [name for name in planners if name not in known]
    if unknown:
        raise UsageError(f"planner {unknown[0]!r} does not serve {kinds}", "choose from: " + ", ".join(known))
