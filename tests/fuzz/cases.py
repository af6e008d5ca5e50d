"""Numbered cases: how many of them, a time for each, and which one failed.

`PSTSTREAM_FUZZ_TIMES` sets how many times as many cases are tried (1), `PSTSTREAM_FUZZ_FROM` from which one on (0).
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 120
"""No case takes a tenth of a second here; one that takes so long would not end."""

TIMES = int(os.environ.get("PSTSTREAM_FUZZ_TIMES", "1"))
FIRST = int(os.environ.get("PSTSTREAM_FUZZ_FROM", "0"))


def cases(name: str, count: int) -> Iterator[tuple[int, random.Random]]:
    """Number and randomness of each case."""
    for number in range(FIRST, FIRST + count * TIMES):
        yield number, random.Random(f"{name} {number}")


@contextmanager
def trying(case: object) -> Iterator[None]:
    """A case is at work: what it raises, and that it does not end, is told with the case."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"not at its end after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    left, _ = signal.setitimer(signal.ITIMER_REAL, SECONDS)  # that of the test as a whole goes on afterwards
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
