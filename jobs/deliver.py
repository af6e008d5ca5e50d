"""What batches have found, told to the sinks: `pststream deliver`. Needs no Spark: run it with Python as it is.

python jobs/deliver.py [--result FILE] [--home DIR] [--sink NAME]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("deliver", __doc__))
