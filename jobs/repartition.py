"""A new plan from the stored sample: `pststream plan`, beside the plan that served until now.

    spark-submit jobs/repartition.py [--result FILE] [--home DIR] [--planner NAME] [--workers N] [--dry-run]
                                     [--from-version A] [--to-version B]

The result is that of `pststream plan`, with `before`: that of `pststream plans show`, or null if there was no plan.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs import entry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", type=Path, help="file for the outcome, JSON")
    parser.add_argument("--home", help="where the tables are")
    own, rest = parser.parse_known_args(entry.given(sys.argv[1:] if arguments is None else arguments))
    home = [f"--home={own.home}"] if own.home else []
    before = entry.run("plans", ["show", *home], quiet=True)
    outcome = entry.run("plan", [*home, *rest])
    if outcome["error"] is None:
        outcome["result"]["before"] = None if before["error"] else before["result"]
    return entry.report(own.result, outcome)


if __name__ == "__main__":
    sys.exit(main())
