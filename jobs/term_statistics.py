"""Count the objects that have each word, and put the counts in force.

python jobs/term_statistics.py [--result FILE] [--home DIR]
"""

from pststream.pipeline.jobs.job import Job
from pststream.pipeline.upkeep.term_statistics import make_term_statistics

main = Job("term-statistics", __doc__, make_term_statistics)

if __name__ == "__main__":
    raise SystemExit(main())
