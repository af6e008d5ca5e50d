"""Compact the tables of a home, and delete files that they no longer use.

python jobs/maintain.py [--result FILE] [--home DIR]
"""

from pststream.pipeline.jobs.job import Job
from pststream.pipeline.upkeep.maintain import maintain

main = Job("maintain", __doc__, maintain)

if __name__ == "__main__":
    raise SystemExit(main())
