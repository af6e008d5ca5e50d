"""Report the state of a home.

python jobs/status.py [--result FILE] [--home DIR]
"""

from pststream.pipeline.jobs.job import Job
from pststream.reports.commands.status import read_status

main = Job("status", __doc__, lambda home, settings, progress: read_status(home.check(), settings.max_ahead_seconds))

if __name__ == "__main__":
    raise SystemExit(main())
