"""Run `pststream deliver` as a job: deliver matches to the sinks. Run it with plain Python; it needs no Spark.

python jobs/deliver.py [--result FILE] [--home DIR] [--sink NAME]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("deliver", __doc__))
