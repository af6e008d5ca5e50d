"""Run `pststream maintain` as a job: compact and clean the tables of a home.

spark-submit jobs/maintain.py [--result FILE] [--home DIR]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("maintain", __doc__))
