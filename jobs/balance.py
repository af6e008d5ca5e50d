"""Run `pststream balance` as a job: adjust the loads, repartition, or check the balance.

    python jobs/balance.py [--result FILE] local|global|retire|undo|check|history [--home DIR] [--apply]
                           [--proposal FILE] [--page FILE.html] [--method gr|dp|si|ra|shift|pm|fm|pm_fm]
                           [--sigma X] [--planner NAME] [--gain X]

The result is the JSON document of the command. `check` and `history` only read, and need no spark-submit.
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("balance", __doc__))
