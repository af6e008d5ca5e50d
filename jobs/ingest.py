"""Run `pststream ingest` as a job: append the rows of input files to the object log or the request log.

python jobs/ingest.py [--result FILE] objects PATH… | requests PATH… [--home DIR] [--strict] [--column …]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("ingest", __doc__))
