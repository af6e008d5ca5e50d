"""The main job, always on: takes files as they land, batch after batch, and tells the sinks beside it.

A round is what `run` does, cut short: it ingests the files that are ready and matches one batch. The home is held for
ingest and for the batch only, so that upkeep gets its turn in between; the part RUNNER is held all the time, so that no
second runner does. A round that fails does not end the watcher: the next one comes later and later, until one succeeds.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from pststream import names
from pststream.errors import HomeBusy, HomeError, RetryableError, RunnerBusy, SettingError, UsageError
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.delivery.sink_threads import SinkThreads
from pststream.pipeline.engine.running_engine import engine_is_alive, get_engine, kill_engine
from pststream.pipeline.engine.warm_up import load_kernels
from pststream.pipeline.ingest.ingest import ReaderOptions
from pststream.pipeline.main_job.arrivals import Arrivals
from pststream.pipeline.main_job.run import check_landing, take_in
from pststream.pipeline.main_job.shutdown import Abandoned, Ending
from pststream.progress import LogMessage, Progress, no_progress
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.heartbeat import Heart
from pststream.state.home import RUNNER, Home
from pststream.storage.addresses import in_bucket

FATAL = (UsageError, SettingError, HomeError)
"""Errors that another round would meet again."""

LEDGER_SECONDS = 5.0
"""The ledger is looked into this often, for what others have ingested or released."""

WARM_SECONDS = 25.0
"""Spark ends Python workers that were idle for a minute; so they are given something to do this often."""

LOOK_SHARE = 0.05
"""The part of the time that looking into a landing folder full of files may take."""

LEAST_PAUSE, MOST_PAUSE = 1.0, 60.0
"""After a round that failed; twice as long after each further one."""

TURN_SECONDS, BUCKET_TURN_SECONDS = 0.1, 0.5
"""After a round that found something to do, the next comes so soon: twice as long as upkeep takes to see its turn."""

STEP_SECONDS = 0.25


def watch(
    home: Home,
    settings: Settings,
    landing: str,
    options: ReaderOptions,
    max_objects: int | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Run until SIGTERM or SIGINT. To be called in the main thread.

    Returns {"batches": n, "objects": n, "matches": n, "failures": rounds that failed, "abandoned": whether a step
    is left for the next command to finish}. Raises RunnerBusy while another runner is at work on the home; errors of
    usage, settings and home; RetryableError when Spark has died.
    """
    home.check()
    if landing.startswith(names.BUCKETS):
        raise UsageError(f"{landing}: a bucket is not watched", "give a folder, or run without --watch, on a schedule")
    check_landing(landing)
    with home.locked(RUNNER, RunnerBusy), Ending(kill_engine) as ending, Heart(home) as heart:
        watcher = _Watcher(
            home, settings, Arrivals(landing, options.format), options, max_objects, progress, heart, ending
        )
        try:
            watcher.start()
            watcher.go()
            if not ending.abandoned:
                watcher.sinks.stop()
        except Abandoned:
            pass
        except Exception:
            # What waited for Spark, which was killed under it, may have raised something else on its way.
            if not ending.abandoned:
                raise
        ending.over()
        progress("watching ends" + (": a step is left for the next command" if ending.abandoned else ""))
        return watcher.totals | {"abandoned": ending.abandoned}


@dataclass
class _Watcher:
    home: Home
    settings: Settings
    arrivals: Arrivals
    options: ReaderOptions
    max_objects: int | None
    progress: Progress
    heart: Heart
    ending: Ending
    totals: dict[str, Any] = field(
        default_factory=lambda: dict.fromkeys(("batches", "objects", "matches", "failures"), 0)
    )
    _failed: int = 0
    _pending: bool = True
    _ledger_at: float = -LEDGER_SECONDS
    _warm_at: float = 0.0
    _told_version: int = -1

    def __post_init__(self) -> None:
        self.sinks = SinkThreads(self.home, self.settings, self.progress)

    def start(self) -> None:
        """Spark, and the kernels in its Python workers, before the first file comes."""
        get_engine(self.settings)
        self.ending.listen()
        self._warm_up()
        self.sinks.start()
        self.progress("watching")

    def go(self) -> None:
        """Round after round, until the end is asked for."""
        while not self.ending.asked:
            pause = self._try()
            turn = BUCKET_TURN_SECONDS if in_bucket(self.home.path) else TURN_SECONDS
            least = turn if self._pending else self.settings.watch_seconds
            self._pause(max(pause, least, self.arrivals.look_seconds / LOOK_SHARE))

    def _try(self) -> float:
        """A round; returns the seconds to wait before the next at least. Raises RetryableError once another has the
        runner's lock, which does not come back by itself.
        """
        if self.home.has_lost_a_lock():
            raise RetryableError("another process has taken over the lock of the runner", "start the watcher again")
        try:
            self._round()
        except HomeBusy as error:
            self._tell("waiting", error=str(error.holder))
            return min(self.settings.watch_seconds, LEAST_PAUSE)
        except FATAL:
            raise
        except Exception as error:
            if not self.ending.asked:
                return self._fail(error)
        else:
            self._failed = 0
            self._tell("working" if self._pending else "idle", failures=0, error=None)
        return 0.0

    def _round(self) -> None:
        """Take in what is ready, and match a batch if there may be one."""
        found = self.arrivals.look()
        if self.arrivals.unsure:
            # Else what has just landed would wait for the end of the round for its second look.
            self._pause(self.settings.watch_seconds)
            found = self.arrivals.look()
        if found:
            self._pending = True
            self._tell("working")
        for kind, paths in found.items():
            if self.ending.asked:
                return
            done = take_in(self.home, self.settings, kind, paths, self.options, self.progress)
            self.arrivals.took(paths, done["passed_over"])
        if not self.ending.asked and (self._pending or time.monotonic() - self._ledger_at > LEDGER_SECONDS):
            self._match()

        if time.monotonic() - self._warm_at > WARM_SECONDS:
            self._warm_up()

    def _warm_up(self) -> None:
        engine = get_engine(self.settings)
        engine.run_tasks(range(engine.parallelism), _warm)
        self._warm_at = time.monotonic()

    def _match(self) -> None:
        done = match(self.home, self.settings, max_objects=self.max_objects, one=True, progress=self.progress)
        self._ledger_at = time.monotonic()
        self._pending = bool(done["batches"])
        if (version := ledger_tables.version(self.home, names.BATCHES)) != self._told_version:
            self._told_version = version  # by a batch of this round, of one that failed, or of another command
            self.sinks.wake()
        if not self._pending:
            self.arrivals.matched()
            return
        self.totals |= {"batches": self.totals["batches"] + 1}
        self.totals |= {name: self.totals[name] + done[name] for name in ("objects", "matches")}
        batch_at = ledger_tables.now().replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
        last = {"batch_id": done["batches"][-1]["batch_id"], "batch_at": batch_at}
        self._tell("working", batches=self.totals["batches"], **last)

    def _fail(self, error: Exception) -> float:
        """Tell of a round that failed; returns the seconds to wait. Raises RetryableError if Spark has died."""
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if not engine_is_alive():
            raise RetryableError(f"Spark has died; {reason}", "start the watcher again: it goes on where it was left")
        self._failed += 1
        self.totals["failures"] += 1
        pause = min(LEAST_PAUSE * 2.0 ** (self._failed - 1), MOST_PAUSE)
        text = f"a round failed, {self._failed} in a row; the next in {pause:.0f} s: {reason}"
        self.progress(LogMessage(text, level="warning"))
        self._tell("failing", failures=self._failed, error=reason)
        return pause

    def _tell(self, state: str, **changes: Any) -> None:
        self.heart.tell(state, self.arrivals.matched_until, waiting_files=self.arrivals.waiting, **changes)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.ending.asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, STEP_SECONDS))


def _warm(_: int) -> None:
    load_kernels()
