"""Run `pststream plan` as a job: make a new plan version from the stored sample.

python jobs/plan.py [--result FILE] [--home DIR] [--planner NAME] [--workers N] [--dry-run]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("plan", __doc__))
