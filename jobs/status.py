"""How a home stands: `pststream status`. Needs no Spark: run it with Python as it is.

python jobs/status.py [--result FILE] [--home DIR]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("status", __doc__))
