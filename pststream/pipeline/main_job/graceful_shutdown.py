"""Handle SIGTERM and SIGINT in a watcher: let the running step end, and abandon it if it takes too long."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

STOP_SECONDS = 7.0
"""Time that the running step has after the first signal; supervisors kill after 10 s or more."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Abandoned(KeyboardInterrupt):
    """The running step took too long and was abandoned. Its state is the same as after a kill of the process."""


class GracefulShutdown:
    """Handles the signals inside a `with` block of the main thread.

    STOP_SECONDS after the first signal, or at the second signal, it calls `abandon`, which must end what the step waits
    for, and raises Abandoned in the main thread, unless the step raises another error because of `abandon`.

    requested  whether a signal came
    abandoned  whether the step was abandoned
    """

    def __init__(self, abandon: Callable[[], None]) -> None:
        self.requested = self.abandoned = self._finished = False
        self._abandon_step = abandon
        self._handlers_before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "GracefulShutdown":
        self._handlers_before = {name: signal.getsignal(name) for name in (*SIGNALS, signal.SIGALRM)}
        self.install_handlers()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for name, handler in self._handlers_before.items():
            signal.signal(name, handler)

    def install_handlers(self) -> None:
        """Install the signal handlers; call this again after Spark has started, as Spark replaces the one of SIGINT."""
        for name in SIGNALS:
            signal.signal(name, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_timeout)

    def finish(self) -> None:
        """Record that no step is left to abandon."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._finished = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._finished:
            return
        if self.requested:
            self._on_timeout(number, frame)
        self.requested = True
        signal.setitimer(signal.ITIMER_REAL, STOP_SECONDS)

    def _on_timeout(self, number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.abandoned or self._finished:
            return
        self.abandoned = True
        self._abandon_step()
        raise Abandoned
