"""Delivery beside a watcher: a thread for each sink, so that one that is slow or dead holds back nothing."""

import threading

from pststream.pipeline.delivery.deliver import deliver
from pststream.progress import LogMessage, Progress
from pststream.settings import Settings
from pststream.sink_settings import SinkSettings
from pststream.state.deliveries import BEHIND, OK
from pststream.state.home import Home

LEAST_PAUSE, MOST_PAUSE = 1.0, 60.0
"""A sink that needs attention is tried again after this, twice as long each time."""


class SinkLoops:
    """Tells each sink of the batches from `start` to `stop`: at the start, and whenever it is woken."""

    def __init__(self, home: Home, settings: Settings, progress: Progress) -> None:
        self._stopping = threading.Event()
        self._loops = [_Loop(home, settings, sink, progress, self._stopping) for sink in settings.sinks]

    def start(self) -> None:
        """Begin."""
        for loop in self._loops:
            loop.start()

    def wake(self) -> None:
        """There is something new."""
        for loop in self._loops:
            loop.woken.set()

    def stop(self) -> None:
        """End when what is being told is told; a sink's place is noted then."""
        self._stopping.set()
        self.wake()
        for loop in self._loops:
            loop.join()


class _Loop(threading.Thread):
    """One sink's."""

    def __init__(
        self, home: Home, settings: Settings, sink: SinkSettings, progress: Progress, stopping: threading.Event
    ) -> None:
        super().__init__(daemon=True, name=f"sink-{sink.name}")
        self.woken = threading.Event()
        self._home, self._settings, self._sink = home, settings, sink
        self._progress, self._stopping = (lambda text: progress(LogMessage(text, step="deliver"))), stopping

    def run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            self.woken.clear()
            if self._stopping.is_set():  # `stop` may have woken it just before that was cleared
                break
            state = self._tell()
            pause = 0.0 if state in (OK, BEHIND) else min(2 * pause or LEAST_PAUSE, MOST_PAUSE)
            if state == OK:
                self.woken.wait()
            elif state != BEHIND:
                self._stopping.wait(pause)

    def _tell(self) -> str:
        """What became of one run of delivery; raises nothing, as the next one may do."""
        try:
            told = deliver(self._home, self._settings, self._sink.name, self._progress)
            return str(told["sinks"][self._sink.name]["state"])
        except Exception as error:
            self._progress(f"sink {self._sink.name}: {type(error).__name__}")
            return "failed"
