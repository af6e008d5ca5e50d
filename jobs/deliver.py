"""Deliver the matches of finished batches to the sinks; fail if a sink needs attention.

python jobs/deliver.py [--result FILE] [--home DIR]
"""

from pststream.pipeline.delivery.deliver import deliver, is_well
from pststream.pipeline.jobs.job import Job

main = Job("deliver", __doc__, deliver, failed=lambda document: not is_well(document))

if __name__ == "__main__":
    raise SystemExit(main())
