"""Append the rows of files to the object log or the request log.

python jobs/ingest.py [--result FILE] [--home DIR] objects|requests PATH… [--strict]
"""

from pststream.pipeline.ingest.ingest import has_rejects, ingest
from pststream.pipeline.jobs.job import Job, argument

main = Job(
    "ingest",
    __doc__,
    ingest,
    argument("kind", choices=("objects", "requests")),
    argument("paths", nargs="+"),
    unclean=has_rejects,
)

if __name__ == "__main__":
    raise SystemExit(main())
