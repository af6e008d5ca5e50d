"""The daily checks of the tables: `pststream check`.

    spark-submit jobs/check_tables.py [--result FILE] [--home DIR] [--all]

The result is that of the command. A check that fails is a result like any other: the job has done what it was to do,
and another try would find the same. The DAG fails by what the result says.
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
    own, rest = parser.parse_known_args(entry.given(sys.argv[1:] if arguments is None else arguments))
    outcome = entry.run("check", rest)
    if outcome["result"]:
        outcome |= {"exit_code": entry.DONE, "error": None}
    return entry.report(own.result, outcome)


if __name__ == "__main__":
    sys.exit(main())
