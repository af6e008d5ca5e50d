"""Ingest quarantined files after all, or drop them.

python jobs/quarantine.py [--result FILE] [--home DIR] --action release|discard --holds "3, 5"
"""

from pststream.pipeline.ingest.ingest import ACTIONS, decide_quarantined, read_numbers
from pststream.pipeline.jobs.job import Job, argument

main = Job(
    "quarantine",
    __doc__,
    decide_quarantined,
    argument("--action", choices=ACTIONS, required=True),
    argument("--holds", type=read_numbers, required=True, help="numbers, as `pststream quarantine list` shows them"),
)

if __name__ == "__main__":
    raise SystemExit(main())
