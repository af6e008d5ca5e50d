"""Run `pststream match` as a job: run micro-batches until nothing is pending, or with `--one` a single batch.

python jobs/match.py [--result FILE] [--home DIR] [--max-objects N] [--until-empty | --one]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("match", __doc__))
