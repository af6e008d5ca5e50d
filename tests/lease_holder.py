"""A process that holds a home of a bucket and appends a row, and stands still at a point until it is told to go on.

    python -m tests.lease_holder ADDRESS POINT SECONDS

POINT: `held`, before the table is read; `checked`, between its reading and the commit; `blind`, as `held`, with a clock
that stands still too; `runner`, as `held`, but what it holds is a runner's part. Prints POINT there, and at the end
`committed` or the error.
"""

import sys

from pststream import names
from pststream.errors import PstError
from pststream.state import ledger_tables
from pststream.state.home import RUNNER, Home
from pststream.state.locking import fencing, lease


def main(address: str, point: str, seconds: str) -> None:
    """Hold, wait, append."""
    lease.LEASE_SECONDS, lease.RENEW_SECONDS = float(seconds), float(seconds) / 4
    home, properties = Home(address), fencing.properties

    def checked(*arguments: object) -> object:
        found = properties(*arguments)  # type: ignore[arg-type]
        wait(point)
        return found

    if point == "checked":
        fencing.properties = checked  # type: ignore[assignment]
    if point == "blind":
        lease._clock = lambda: 0.0
    try:
        with home.locked(RUNNER if point == "runner" else ""):
            if point != "checked":
                wait(point)
            ledger_tables.append(home, names.VOCABULARY, [{"plan_version": 1, "term_id": 1, "term": "of the first"}])
        print("committed", flush=True)
    except PstError as error:
        print(f"{type(error).__name__}: {error.args[0]}", flush=True)


def wait(point: str) -> None:
    """Say where it is, and go on at the next line."""
    print(point, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
