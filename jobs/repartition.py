"""A new partitioning of everything: `pststream balance global`, or `pststream plan` where that is asked for more.

    spark-submit jobs/repartition.py [--result FILE] [--home DIR] [--apply] [--planner NAME] [--gain X]
                                     [--proposal FILE] [--page FILE.html]
                                     [--workers N] [--from-version A] [--to-version B]

Another number of workers, or a sample from some versions of the table `objects` only, makes a plan with an index of
its own: `pststream plan`, whatever it gains. The result is that of `pststream balance` either way; what `plan` does not
know is null.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs import entry

ANEW = ("workers", "from_version", "to_version")
OF_BALANCE = ("gain", "proposal", "page")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", type=Path, help="file for the outcome, JSON")
    parser.add_argument("--home", help="where the tables are")
    parser.add_argument("--apply", action="store_true", help="do it; else only show what it would be")
    for name in (*ANEW, *OF_BALANCE):
        parser.add_argument(_option(name))
    own, rest = parser.parse_known_args(entry.given(sys.argv[1:] if arguments is None else arguments))
    home, anew, of_balance = (_given(own, names) for names in (("home",), ANEW, OF_BALANCE))
    if anew:
        return entry.report(own.result, _anew(home, [*home, *anew, *rest], own.apply))
    way = "--apply" if own.apply else "--dry-run"
    return entry.report(own.result, entry.run("balance", ["global", way, *home, *of_balance, *rest]))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _given(own: argparse.Namespace, names: Sequence[str]) -> list[str]:
    return [f"{_option(name)}={getattr(own, name)}" for name in names if getattr(own, name) is not None]


def _anew(home: list[str], options: list[str], apply: bool) -> dict[str, Any]:
    """`pststream plan`, told as `pststream balance` tells it."""
    before = entry.run("plans", ["show", *home], quiet=True)["result"] or {"plan_version": 0, "worker_loads": []}
    outcome = entry.run("plan", [*options, *([] if apply else ["--dry-run"])])
    if outcome["error"] is None:
        made = outcome["result"]
        outcome["result"] = {
            "kind": "plan",
            "dry_run": not apply,
            "reason": f"asked for: {made['planner']} over {made['workers']} workers, {made['units']} units",
            "plan_version_before": before["plan_version"],
            "plan_version_after": made["plan_version"],
            "measured_imbalance": None,
            "moved_subscriptions": None,
            "moved_bytes": None,
            "expected_gain": None,
            "moves": [],
            "load_before": before["worker_loads"],
            "load_after": made["worker_loads"],
            "seconds": made["seconds"],
        }
    return outcome


if __name__ == "__main__":
    sys.exit(main())
