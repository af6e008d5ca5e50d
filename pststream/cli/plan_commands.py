"""Run the commands that make plans and compare planners; return document and text."""

from typing import Any

from pststream.base import names
from pststream.cli.command import CommandContext, CommandResult, check_output_path, refuse_options
from pststream.cli.result_texts import describe_plan, describe_topk_plan
from pststream.settings import check_planners

NEWEST = 1_000_000
"""Objects that planners are compared on, unless another number is given."""


def plan_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Make a new plan version."""
    from pststream.pipeline.replan.make_plan import make_plan

    kinds = arguments.kinds or names.kinds_served(arguments.chosen_planner)
    document = make_plan(
        context.home,
        context.settings,
        arguments.chosen_planner,
        kinds,
        planner_options=arguments.planner_options,
        from_version=arguments.from_version,
        to_version=arguments.to_version,
        dry_run=arguments.dry_run,
        progress=context.progress,
    )
    if kinds == names.TOPK_KINDS:
        return CommandResult(document, describe_topk_plan(document))
    return CommandResult(document, describe_plan(document, arguments.dry_run))


def compare_plans_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Compare planners by running each in a scratch home with the newest objects."""
    from pststream.pipeline.replan.compare_planners import compare, compare_topk
    from pststream.reports.commands.comparisons import render_comparison, render_topk_comparison
    from pststream.reports.pages.comparison_page import write_comparison

    kinds = arguments.kinds or names.REGION_KINDS
    planners = tuple(arguments.planners.split(",")) if arguments.planners else tuple(names.PLANNERS_OF[kinds])
    if kinds == names.TOPK_KINDS:
        refuse_options("plans compare --kinds topk", {"--objects": arguments.objects, "--out": arguments.out})
    check_planners(planners, kinds)
    if kinds == names.TOPK_KINDS:
        document = compare_topk(context.home, context.settings, planners, context.progress)
        return CommandResult(document, render_topk_comparison(document))
    check_output_path(arguments.out)
    objects = arguments.objects or NEWEST
    document = compare(context.home, context.settings, planners, objects, progress=context.progress)
    if arguments.out:
        write_comparison(document, arguments.out)
        document["out"] = arguments.out
    return CommandResult(document, render_comparison(document))


def calibrate_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Measure the constants of the load model on this machine, and write them to the settings of the home."""
    from pststream.pipeline.calibrate.calibrate import calibrate
    from pststream.settings import write_settings

    home = context.home.check()
    figures = calibrate(arguments.scale, arguments.seed, context.settings, context.progress)
    measured = {name: value for name, value in figures.items() if name.startswith("cost_")}
    write_settings(home.path, measured)
    lines = [f"{name} = {value:.3g}" for name, value in measured.items()]
    text = "\n".join([*lines, f"written to {home.path}/pststream.toml; new plans use them"])
    return CommandResult({"figures": figures}, text)
