"""Run `pststream bench`: `python -m benchmarks list`, `python -m benchmarks run kernel`."""

import sys

from pststream.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
