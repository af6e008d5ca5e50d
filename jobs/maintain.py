"""Run `pststream maintain` as a job: compact the tables of a home and delete files that they no longer use.

python jobs/maintain.py [--result FILE] [--home DIR]
"""

import sys

from jobs import entry

if __name__ == "__main__":
    sys.exit(entry.main("maintain", __doc__))
