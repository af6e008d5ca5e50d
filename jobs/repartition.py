"""Run `pststream balance global` as a job, or `pststream plan` if workers or table versions are given.

    python jobs/repartition.py [--result FILE] [--home DIR] [--apply] [--planner NAME] [--kinds KINDS]
                               [--gain X] [--proposal FILE] [--page FILE.html]
                               [--workers N] [--from-version A] [--to-version B]

Another number of workers, or a sample of some versions of the table `objects`, needs a plan with an index of its own:
`pststream plan`, whatever its gain. So does the plan of `topk`, which is made if KINDS is `topk`, or the planner serves
`topk` and KINDS is not given. Either way the result has the keys of `pststream balance`; those that `plan` does not
compute are null.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from jobs import entry
from pststream.names import TOPK_KINDS, kinds_served

PLAN_OPTIONS = ("workers", "from_version", "to_version")
BALANCE_OPTIONS = ("gain", "proposal", "page")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", help="file for the outcome, JSON, also s3://…")
    parser.add_argument("--home", help="home of the tables")
    parser.add_argument("--apply", action="store_true", help="apply it (default: only show it)")
    parser.add_argument("--planner", help="planner of the new plan")
    parser.add_argument("--kinds", help="the kinds whose plan is made (default: those that the planner serves)")
    for name in (*PLAN_OPTIONS, *BALANCE_OPTIONS):
        parser.add_argument(_option(name))
    own, rest = parser.parse_known_args(entry.drop_empty(sys.argv[1:] if arguments is None else arguments))
    home, for_plan, for_balance = (_options(own, names) for names in (("home",), PLAN_OPTIONS, BALANCE_OPTIONS))
    which, kinds = _options(own, ("planner", "kinds")), own.kinds or kinds_served(own.planner)
    if for_plan or kinds == TOPK_KINDS:
        return entry.report(own.result, _run_plan(home, [*home, *for_plan, *which, *rest], own.apply, kinds))
    mode = "--apply" if own.apply else "--dry-run"
    return entry.report(own.result, entry.run("balance", ["global", mode, *home, *for_balance, *which, *rest]))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _options(own: argparse.Namespace, names: Sequence[str]) -> list[str]:
    return [f"{_option(name)}={getattr(own, name)}" for name in names if getattr(own, name) is not None]


def _run_plan(home: list[str], options: list[str], apply: bool, kinds: str) -> dict[str, Any]:
    """Run `pststream plan`; return its outcome with the keys of `pststream balance`.

    kinds: those whose plan is made; of `topk` the loads are those of units, none of the planner `hash`
    """
    show = ["show", *home, *([f"--kinds={kinds}"] if kinds == TOPK_KINDS else [])]
    before = entry.run("plans", show, quiet=True)["result"] or {"plan_version": 0}
    outcome = entry.run("plan", [*options, *([] if apply else ["--dry-run"])])
    loads = "unit_loads" if kinds == TOPK_KINDS else "worker_loads"
    if outcome["error"] is None:
        made = outcome["result"]
        over = "topk" if kinds == TOPK_KINDS else f"{made['workers']} workers"
        outcome["result"] = {
            "kind": "plan",
            "dry_run": not apply,
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
    return outcome


if __name__ == "__main__":
    sys.exit(main())
