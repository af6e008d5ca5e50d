"""Scale the number of random cases, number them, limit the time of each, and report the number of a failed one.

`PSTSTREAM_FUZZ_TIMES` sets how many times the cases of a test are tried (0.2), `PSTSTREAM_FUZZ_FROM` from which seed or
number of a case on (0).
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import settings

SECONDS = 120
"""Time limit of a case; all normal cases take less than a tenth of a second."""

TIMES = float(os.environ.get("PSTSTREAM_FUZZ_TIMES") or 0.2)
FIRST = int(os.environ.get("PSTSTREAM_FUZZ_FROM", "0"))


def scale(count: int) -> int:
    """Return how many of the cases of a test are tried: at least two, as an odd and an even seed may be two cases."""
    return max(min(count, 2), round(count * TIMES))


def examples(count: int, **options: Any) -> settings:
    """Draw that many examples by Hypothesis, scaled."""
    return settings(max_examples=scale(count), **options)


def seeds(count: int) -> Callable[[Any], Any]:
    """Run a test with that many seeds, scaled."""

    def mark(test: Any) -> Any:
        return pytest.mark.random(pytest.mark.parametrize("seed", range(FIRST, FIRST + scale(count)))(test))

    return mark


def cases(name: str, count: int) -> Iterator[tuple[int, random.Random]]:
    """Yield the number and the random generator of each case."""
    for number in range(FIRST, FIRST + scale(count)):
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
