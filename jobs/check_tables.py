"""Run `pststream check` as a job that succeeds even if a check of the tables fails; the DAG reads the result.

    python jobs/check_tables.py [--result FILE] [--home DIR] [--all]

The result is the JSON document of the command. The job succeeds, since a retry would find the same faults; the DAG
fails if the result has a failed check.
"""

import argparse
import sys
from collections.abc import Sequence

from jobs import entry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", help="file for the outcome, JSON, also s3://…")
    own, rest = parser.parse_known_args(entry.drop_empty(sys.argv[1:] if arguments is None else arguments))
    outcome = entry.run("check", rest)
    if outcome["result"]:
        outcome |= {"exit_code": entry.DONE, "error": None}
    return entry.report(own.result, outcome)


if __name__ == "__main__":
    sys.exit(main())
