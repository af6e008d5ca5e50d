"""Log the steps of a benchmark: the number of each, what it measured, and the time left if all steps are alike."""

import time

from pststream.base.format_values import duration
from pststream.base.progress import Progress


class Steps:
    """Logs each step of a benchmark when it has ended."""

    def __init__(self, progress: Progress, total: int, alike: bool = False) -> None:
        """Begin the first of `total` steps; alike: each takes about as long as the others."""
        self._progress, self._total, self._alike = progress, total, alike
        self._done, self._began = 0, time.monotonic()

    def end(self, text: str) -> None:
        """Log that a step has ended, and what it did or measured."""
        self._done += 1
        line, left = f"step {self._done} of {self._total}: {text}", self._total - self._done
        if self._alike and left:
            line += f"; {duration((time.monotonic() - self._began) / self._done * left)} left"
        self._progress(line)
