"""Add the options of `plan`, `plans` and `replay`; which planners there are follows from the kinds of query."""

import argparse
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from pststream import names
from pststream.cli.argument_types import JoinedTexts, positive, seed, version
from pststream.cli.plan_commands import NEWEST


def add_kinds_option(command: argparse.ArgumentParser, text: str) -> None:
    """Add `--kinds`; text: what it is for."""
    kinds = tuple(names.PLANNERS_OF)
    command.add_argument("--kinds", choices=kinds, metavar="KINDS", help=f"{' or '.join(kinds)}: {text}")


def planners_of_all_kinds() -> tuple[str, ...]:
    """Return the names of all planners, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(names.PLANNERS_OF.values())))


def add_planner_name(command: Any, planners: Iterable[str], dest: str, text: str) -> None:
    """Add `--planner` to a parser or group; planners: names to choose from; dest: its attribute; text: its help.

    The usage, which each error repeats, does not list the names.
    """
    command.add_argument("--planner", metavar="PLANNER", dest=dest, choices=tuple(planners), help=text)


def add_planner_option(command: argparse.ArgumentParser) -> None:
    """Add `--option`, an option of the planner."""
    command.add_argument(
        "--option",
        action=JoinedTexts,
        dest="planner_options",
        metavar="NAME=VALUE",
        help="an option of the planner (docs/planners.md); repeatable (default: setting planner_options)",
    )


def add_plan_options(plan: argparse.ArgumentParser) -> None:
    """Add the options of `plan`."""
    add_kinds_option(plan, "the kinds whose plan is made; default: those that the planner serves, topk if both")
    regions = f"of {names.REGION_KINDS}: {', '.join(names.PLANNERS)} (default: setting planner)"
    topk = f"of {names.TOPK_KINDS}: {', '.join(names.TOPK_PLANNERS)} (default: that of its plan in force)"
    add_planner_name(plan, planners_of_all_kinds(), "chosen_planner", f"{regions}; {topk}")
    add_planner_option(plan)
    plan.add_argument("--workers", type=positive, help="default: setting workers")
    plan.add_argument("--from-version", type=int, help="sample objects written after this Delta version of objects")
    plan.add_argument("--to-version", type=int, help="sample objects written up to this Delta version of objects")
    plan.add_argument("--dry-run", action="store_true", help="print the plan's figures; change nothing")


def add_plans_options(plans: argparse.ArgumentParser) -> None:
    """Add the options of `plans`."""
    plans.add_argument("what", choices=("list", "show", "compare", "calibrate"))
    plans.add_argument("version", nargs="?", type=positive, help="for `show`; default: the current one")
    planners = "; ".join(f"of {kinds}: {', '.join(known)}" for kinds, known in names.PLANNERS_OF.items())
    plans.add_argument("--planners", metavar="A,B", help=f"for `compare`; default: all ({planners})")
    kinds = "for `show` and `compare`: the kinds that the plan serves; default: " + names.REGION_KINDS
    add_kinds_option(plans, kinds)
    plans.add_argument("--workers", type=positive, help="for `compare`; default: setting workers")
    plans.add_argument(
        "--objects",
        type=positive,
        help=f"for `compare` of {names.REGION_KINDS}: number of newest objects (default {NEWEST})",
    )
    plans.add_argument(
        "--scale",
        choices=("small", "full"),
        default="small",
        help="for `calibrate`: how much to measure, default %(default)s",
    )
    plans.add_argument("--seed", type=seed, default=1, help="for `calibrate`; default %(default)s")
    plans.add_argument("--out", metavar="FILE.html", help="for `compare`: write a page with plots here")


def add_replay_options(replay: argparse.ArgumentParser) -> None:
    """Add the options of `replay`."""
    replay.add_argument(
        "--from-version",
        type=version,
        metavar="A",
        help="replay the batches committed after this version of the Delta table `matches`",
    )
    replay.add_argument("--to-version", type=version, metavar="B", help="... and up to this version of it")
    replay.add_argument("--last", type=positive, metavar="N", help="instead of versions: the last N batches")
    plan = replay.add_mutually_exclusive_group()
    text = (
        "a plan by this planner (`pststream plan --help` lists them), of what was stored before the batches;"
        " of topk, of what the first batch leaves"
    )
    add_planner_name(plan, planners_of_all_kinds(), "chosen_planner", text)
    plan.add_argument("--plan", type=positive, metavar="VERSION", help="a plan version (default: the one in force)")
    plan.add_argument("--proposal", type=Path, metavar="FILE", help="the plan that a proposal of `balance` makes")
    add_planner_option(replay)
    add_kinds_option(replay, "the kinds whose plan --planner makes; default: those that it serves, topk if both")
    replay.add_argument(
        "--out", type=Path, metavar="DIR", help="write matches.parquet, loads.csv and replay.json; scratch files too"
    )
    replay.add_argument("--page", type=Path, metavar="FILE.html", help="write a page with the loads")
