"""Run `pststream term-statistics` as a job: count the objects that have each word, and put the counts in force.

python jobs/term_statistics.py [--result FILE] [--home DIR]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("term-statistics", __doc__))
