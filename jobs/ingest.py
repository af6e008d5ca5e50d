"""Append the rows of files to the object log or the request log.

python jobs/ingest.py [--result FILE] [--home DIR] objects|requests PATH… [--owner NAME] [--strict]
"""

from pststream.pipeline.ingest.ingest import has_rejects, ingest
from pststream.pipeline.jobs.job import Job, argument

main = Job(
    "ingest",
    __doc__,
    ingest,
    argument("kind", choices=("objects", "requests")),
    argument("paths", nargs="+"),
    argument("--owner", default="", help="owner of the requests"),
    unclean=has_rejects,
)

if __name__ == "__main__":
    raise SystemExit(main())
