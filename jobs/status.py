"""Run `pststream status` as a job: report the state of a home. Run it with plain Python; it needs no Spark.

python jobs/status.py [--result FILE] [--home DIR]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("status", __doc__))
