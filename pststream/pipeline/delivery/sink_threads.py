"""A thread for each sink of a watcher: it delivers when woken after a batch, and retries with growing pauses.

A slow or dead sink delays nothing else.
"""

import threading

from pststream.base.progress import LogMessage, Progress
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery.deliver import deliver
from pststream.settings import Settings
from pststream.state.deliveries import BEHIND, OK
from pststream.state.home import Home

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a sink that needs attention is tried again; the pause doubles each time."""


class SinkThreads:
    """Delivers to each sink from `start` to `stop`: at the start, and whenever `wake` is called."""

    def __init__(self, home: Home, settings: Settings, progress: Progress) -> None:
        self._stopping = threading.Event()
        self._threads = [_SinkThread(home, settings, sink, progress, self._stopping) for sink in settings.sinks]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Deliver what is new."""
        for thread in self._threads:
            thread.woken.set()

    def stop(self) -> None:
        """Stop when the messages in delivery are delivered and the positions are saved."""
        self._stopping.set()
        self.wake()
        for thread in self._threads:
            thread.join()


class _SinkThread(threading.Thread):
    """The thread of one sink."""

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
            if self._stopping.is_set():  # `stop` may have set `woken` just before it was cleared
                break
            state = self._deliver()
            pause = 0.0 if state in (OK, BEHIND) else min(2 * pause or SHORTEST_PAUSE, LONGEST_PAUSE)
            if state == OK:
                self.woken.wait()
            elif state != BEHIND:
                self._stopping.wait(pause)

    def _deliver(self) -> str:
        """Run one delivery and return the sink's state; raises nothing, as the next delivery may succeed."""
        try:
            document = deliver(self._home, self._settings, self._sink.name, self._progress)
            return str(document["sinks"][self._sink.name]["state"])
        except Exception as error:
            self._progress(f"sink {self._sink.name}: {type(error).__name__}")
            return "failed"
