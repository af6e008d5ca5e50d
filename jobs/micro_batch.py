"""Ingest, match, deliver and answer what is new in a landing folder or bucket. Ends soon if nothing is new.

python jobs/micro_batch.py [--result FILE] [--home DIR] [--landing DIR] [--max-objects N] [--strict] [--since TIME]
                           [--no-deliver] [--only-if-idle]
"""

from pststream.pipeline.jobs.job import Job, argument, setting
from pststream.pipeline.jobs.landing import LANDING, ONLY_IF_IDLE, SINCE, is_unclean, run_landing

main = Job(
    "run",
    __doc__,
    run_landing,
    *(LANDING, SINCE, ONLY_IF_IDLE),
    argument("--no-deliver", action="store_true", help="leave delivery to the job `deliver`"),
    setting("--max-objects", "max_objects"),
    unclean=is_unclean,
)

if __name__ == "__main__":
    raise SystemExit(main())
