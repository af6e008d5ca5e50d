"""Ending a process that goes on for ever: asked by SIGTERM or SIGINT, it ends when its step is done, or soon anyway."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

STOP_SECONDS = 7.0
"""So long the step at hand may take to its end once the end is asked for; supervisors kill after 10 s or more."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Abandoned(BaseException):
    """The step at hand took too long: it is left as it stands, as if the process were killed."""


class Ending:
    """Listens to the signals between `with` and its end, in the main thread; `asked` tells whether one came.

    STOP_SECONDS after the first signal, or at the second one, it calls `abandon`, which is to end what the step waits
    for, and raises Abandoned in the main thread, unless that raises something else on its way.
    """

    def __init__(self, abandon: Callable[[], None]) -> None:
        self.asked = self.abandoned = self._over = False
        self._end_work = abandon
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Ending":
        self._before = {name: signal.getsignal(name) for name in (*SIGNALS, signal.SIGALRM)}
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def listen(self) -> None:
        """Take the signals; again after Spark has started, which takes SIGINT for itself."""
        for name in SIGNALS:
            signal.signal(name, self._ask)
        signal.signal(signal.SIGALRM, self._abandon)

    def over(self) -> None:
        """Nothing is left to abandon."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._over = True

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._over:
            return
        if self.asked:
            self._abandon(number, frame)
        self.asked = True
        signal.setitimer(signal.ITIMER_REAL, STOP_SECONDS)

    def _abandon(self, number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.abandoned or self._over:
            return
        self.abandoned = True
        self._end_work()
        raise Abandoned
