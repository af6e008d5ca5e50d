"""Local load adjustment, applied: `pststream balance local --apply`.

    spark-submit jobs/adjust_load.py [--result FILE] [--home DIR] [--method gr|dp|si|ra] [--sigma X] [--dry-run]

The result is that of `pststream balance`.
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
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    own, rest = parser.parse_known_args(entry.given(sys.argv[1:] if arguments is None else arguments))
    way = "--dry-run" if own.dry_run else "--apply"
    return entry.report(own.result, entry.run("balance", ["local", way, *rest]))


if __name__ == "__main__":
    sys.exit(main())
