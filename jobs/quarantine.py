"""Run `pststream quarantine release | discard` as a job: ingest quarantined files after all, or drop them.

    python jobs/quarantine.py [--result FILE] [--home DIR] --action release|discard --holds "3, 5"

The result is the JSON document of the command.
"""

import argparse
import re
import sys
from collections.abc import Sequence

from jobs import entry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", help="file for the outcome, JSON, also s3://…")
    parser.add_argument("--action", choices=("release", "discard"), required=True)
    parser.add_argument("--holds", required=True, help="numbers, as `pststream quarantine list` shows them")
    own, rest = parser.parse_known_args(entry.drop_empty(sys.argv[1:] if arguments is None else arguments))
    holds = [word for word in re.split(r"[\s,]+", own.holds) if word]
    return entry.report(own.result, entry.run("quarantine", [own.action, *holds, *rest]))


if __name__ == "__main__":
    sys.exit(main())
