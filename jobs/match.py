"""Run micro-batches until nothing is pending.

python jobs/match.py [--result FILE] [--home DIR] [--max-objects N]
"""

from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.jobs.job import Job, setting

main = Job("match", __doc__, match, setting("--max-objects", "max_objects"))

if __name__ == "__main__":
    raise SystemExit(main())
