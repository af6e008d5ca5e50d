"""Run `pststream replay` as a job: run recorded batches again under another plan, and compare; changes nothing.

python jobs/replay.py [--result FILE] [--home DIR] --from-version A --to-version B | --last N
                      [--planner NAME | --plan VERSION | --proposal FILE] [--out DIR] [--page FILE.html]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("replay", __doc__))
