"""Number the cases, limit the time of each, and report the number of a failed one.

`PSTSTREAM_FUZZ_TIMES` sets how many times as many cases are tried (1), `PSTSTREAM_FUZZ_FROM` from which one on (0).
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 120
"""Time limit of a case; all normal cases take less than a tenth of a second."""

TIMES = int(os.environ.get("PSTSTREAM_FUZZ_TIMES", "1"))
FIRST = int(os.environ.get("PSTSTREAM_FUZZ_FROM", "0"))


def cases(name: str, count: int) -> Iterator[tuple[int, random.Random]]:
    """Yield the number and the random generator of each case."""
    for number in range(FIRST, FIRST + count * TIMES):
        yield number, random.Random(f"{name} {number}")


@contextmanager
def trying(case: object) -> Iterator[None]:
    """Report the case in any error of the block, and in a timeout."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"not finished after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    left, _ = signal.setitimer(signal.ITIMER_REAL, SECONDS)  # the timer of the whole test resumes afterwards
    began = time.monotonic()
    try:
        yield
    except Exception as error:
        raise AssertionError(f"case {case}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-3))
