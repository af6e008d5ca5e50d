"""Bring the table `gold/pairs` up to the last batch, unless the setting `pairs_table` is `never`.

python jobs/pairs.py [--result FILE] [--home DIR]
"""

from pststream.pipeline.jobs.job import Job
from pststream.pipeline.upkeep.pairs_table import update_hourly

main = Job("pairs", __doc__, update_hourly)

if __name__ == "__main__":
    raise SystemExit(main())
