"""Load adjustment, a new partitioning, or a look at the balance: `pststream balance`.

    spark-submit jobs/balance.py [--result FILE] local|global|retire|undo|check|history [--home DIR] [--apply]
                                 [--proposal FILE] [--page FILE.html] [--method gr|dp|si|ra] [--sigma X]
                                 [--planner NAME] [--gain X]

The result is that of `pststream balance`. `check` and `history` only read, and need no spark-submit.
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("balance", __doc__))
