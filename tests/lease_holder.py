"""Lock a home in a bucket, append a row, and pause at a point until a line arrives on standard input.

    python -m tests.lease_holder ADDRESS POINT SECONDS

POINT: `held`, before the table is read; `checked`, between its reading and the commit; `blind`, as `held`, with a clock
that stands still too; `runner`, as `held`, with the lock of the runner. The process prints POINT there, and at the end
`committed` or the error.
"""

import sys

from pststream import names
from pststream.errors import PstError
from pststream.state import ledger_tables
from pststream.state.home import RUNNER, Home
from pststream.state.locking import fencing, lease


def main(address: str, point: str, seconds: str) -> None:
    """Lock the home, wait at the point, append."""
    lease.LEASE_SECONDS, lease.RENEW_SECONDS = float(seconds), float(seconds) / 4
    home, tokens = Home(address), fencing.with_fencing_tokens

    def checked(*arguments: object) -> object:
        result = tokens(*arguments)  # type: ignore[arg-type]
        wait(point)
        return result

    if point == "checked":
        fencing.with_fencing_tokens = checked  # type: ignore[assignment]
    if point == "blind":
        lease._clock = lambda: 0.0
    try:
        with home.locked(RUNNER if point == "runner" else ""):
            if point != "checked":
                wait(point)
            ledger_tables.append(
                home,
                names.VOCABULARY,
                [{"plan_version": 1, "term_id": 1, "term": "of the first", "objects": 1, "subscriptions": 1}],
            )
        print("committed", flush=True)
    except PstError as error:
        print(f"{type(error).__name__}: {error.args[0]}", flush=True)


def wait(point: str) -> None:
    """Print the point, and continue at the next line of standard input."""
    print(point, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
