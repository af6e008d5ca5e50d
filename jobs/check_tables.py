"""Check ledgers, worker index and matches. The job succeeds even if a check fails: the DAG reads the result.

python jobs/check_tables.py [--result FILE] [--home DIR] [--all]
"""

from pststream.pipeline.jobs.job import Job, argument
from pststream.pipeline.upkeep.check_tables import check_tables

main = Job("check", __doc__, check_tables, argument("--all", action="store_true", dest="everything"))

if __name__ == "__main__":
    raise SystemExit(main())
