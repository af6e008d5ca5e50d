"""Do one `pststream run`, or run until a signal (`--watch`): ingest, match, deliver and answer.

The job ingests new files of a landing folder or bucket, matches, delivers, and answers. It runs unattended, so a file
that cannot be read is quarantined and the other files are ingested. The module also finds out if there is work, and
sums up what earlier tries did.
"""

import datetime as dt
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import (
    HomeBusy,
    HomeError,
    PairsBusy,
    PassingError,
    QuestionsBusy,
    RetryableError,
    RunnerBusy,
    SettingError,
    UsageError,
)
from pststream.base.progress import LogMessage, Progress, no_progress, with_fields
from pststream.base.texts import duration, escape_controls, mask_urls
from pststream.base.utc_times import iso, utc_now
from pststream.engine.running_engine import get_engine, runs_elsewhere
from pststream.engine.spark_session import check_jars, kill_spark, spark_has_died
from pststream.engine.warm_up import load_kernels
from pststream.input.input_files import files_below, has_format, unknown_below
from pststream.pipeline.batch.micro_batch import batch_summary, match
from pststream.pipeline.delivery.deliver import SinkThreads, deliver
from pststream.pipeline.ingest.fetch_objects import ObjectSource, is_fetched
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest, options_of, stored_options
from pststream.pipeline.ingest.known_files import KnownFiles
from pststream.pipeline.ingest.landing_gate import load_landed_suites
from pststream.pipeline.ingest.local_files import (
    UNCACHED_BYTES,
    folder_of_sender,
    hash_files,
    read_stamps,
    select_readable,
)
from pststream.pipeline.main_job.landing_scanner import KINDS, LandingScanner
from pststream.pipeline.main_job.metrics_server import Address, serve_metrics
from pststream.pipeline.questions.answer_landed import answer_landed_questions
from pststream.pipeline.questions.question_ledger import FOLDER as QUESTIONS
from pststream.pipeline.questions.question_ledger import NOTHING_ANSWERED, questions_wait, unfinished_files
from pststream.pipeline.upkeep.pairs_table import update_pairs
from pststream.settings import Settings
from pststream.state import fetched_files
from pststream.state.heartbeat import Heartbeat
from pststream.state.home import RUNNER, Home
from pststream.storage.registry import local_path
from pststream.tables.delta_tables import latest_dataset, table_version
from pststream.tables.ledgers import FileRow, Ledger, read_files, read_latest
from pststream.tables.owners import owner_of_landed

MAX_LISTED = 100
"""Files of unknown endings that are named."""


def run(
    home: Home,
    settings: Settings,
    landing: str,
    options: ReaderOptions,
    max_objects: int | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ingest `landing/requests` and `landing/objects`, match what is pending, deliver to the sinks, and answer
    `landing/questions`.

    `landing`: a folder, or an address in a bucket, whose questions are not read. Returns {"ingest": {"requests": …,
    "objects": …}, "match": …, "deliver": …, "questions": …}, "pairs" if the setting `pairs_table` is `run`, and
    "unknown_endings": [paths], MAX_LISTED at most, if a folder has files that are not read for that. These are no
    errors: a missing or empty folder of a kind, a sink that is down, and another process that answers files of
    questions (new files then wait for the next run).
    Raises RunnerBusy while another runner, or a watcher, uses the home; SuiteError before any work if a suite cannot be
    used; RetryableError at the end if the files of a kind could not be read at the moment, or questions could not be
    answered.
    """
    check_landing(landing)
    load_landed_suites(home, KINDS)
    if settings.pairs_table == names.AFTER_RUNS:
        check_jars(settings, home)
    fetched = local_path(landing) is None
    ingested: dict[str, Any] = {}
    unknown = [] if fetched else [path for kind in KINDS for path in unknown_below(f"{landing.rstrip('/')}/{kind}")]
    for path in unknown[:MAX_LISTED]:
        progress(escape_controls(f"{path}: not read: its ending is that of no known format"))
    with home.locked(RUNNER, RunnerBusy):
        failures = []
        for kind in KINDS:
            folder = f"{landing.rstrip('/')}/{kind}"
            format = options.format if kind == "objects" else None
            if fetched or any(has_format(path, format) for path in files_below(folder)):
                try:
                    ingested[kind] = ingest_landed(home, settings, kind, [folder], options, progress, folder)
                except RetryableError as error:  # the other kind, the batches and the sinks go on
                    failures.append(error)
        matched = match(home, settings, max_objects=max_objects, progress=progress)
        delivered = deliver(home, settings, progress=progress)
        answered = NOTHING_ANSWERED
        if not fetched:
            try:
                answered = answer_landed_questions(home, settings, landing, progress=progress)
            except QuestionsBusy as error:
                progress(LogMessage(f"questions wait: {error.holder}"))
            except RetryableError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        is_wanted = settings.pairs_table == names.AFTER_RUNS
        gold = {"pairs": update_pairs(home, settings, progress=progress)} if is_wanted else {}
        more = gold | ({"unknown_endings": unknown[:MAX_LISTED]} if unknown else {})
        return more | {"ingest": ingested, "match": matched, "deliver": delivered, "questions": answered}


def check_landing(landing: str) -> None:
    """Raise UsageError unless `landing` is a folder or an address in a bucket."""
    if local_path(landing) is not None and not Path(landing).is_dir():
        raise UsageError(f"{landing} is not a folder", "put files into its folders objects/, requests/, questions/")


def ingest_landed(
    home: Home, settings: Settings, kind: str, paths: list[str], options: ReaderOptions, progress: Progress, folder: str
) -> dict[str, Any]:
    """Ingest landed files of `folder`, that of their kind; the options of columns apply to objects only."""
    reading = options if kind == "objects" else ReaderOptions(timezone=options.timezone, time_unit=options.time_unit)
    log = with_fields(progress, step="ingest")
    return ingest(home, settings, kind, paths, reading, log, True, folder)


def has_work(home: Home, settings: Settings, landing: str) -> bool:
    """Whether `run` would do or report anything but files of unknown endings: ingest a file, name one that it cannot
    read or that is pending, match
    pending rows, answer a file of questions, finish an interrupted step, create the home, or refuse the landing folder.
    If only reading a large file can answer this, the result is true.

    A job asks before it loads the code that ingests and matches, and a DAG before it submits to a cluster. Raises
    RunnerBusy as `run` does.
    """
    fetched = is_fetched(landing)
    if not home.files.exists(names.HOME_MARK) or not (fetched or Path(landing).is_dir()):
        return True
    home.check()
    with home.locked(RUNNER, RunnerBusy), home.locked():
        ledger = Ledger(home)
        if ledger.unfinished_ingest() or ledger.unfinished_batch() or not ledger.pending(1).empty:
            return True
        folders = ((kind, f"{landing.rstrip('/')}/{kind}") for kind in KINDS)
        if fetched:
            hashes = fetched_files.read_hash_cache(home)
            for kind, folder in folders:
                known = KnownFiles(home, kind, {sha256 for _, _, sha256 in hashes.values()})
                find = partial(_find_known, settings, folder, known)
                source = ObjectSource(home, folder, None, find, hashes, True, settings.max_fetch_bytes, False)
                if source.ready or source.pending(settings.pending_seconds):
                    return True
            return False
        if any(_has_new_files(home, settings, kind, folder) for kind, folder in folders):
            return True
        return questions_wait(home, landing)


def _find_known(settings: Settings, folder: str, known: KnownFiles, path: str, sha256: str) -> str | None:
    owner = owner_of_landed(path, folder)
    return known.find(path, sha256, stored_options(options_of(settings), settings, True, owner))


def _has_new_files(home: Home, settings: Settings, kind: str, folder: str) -> bool:
    """Whether a local folder has a file that was not judged before; the home is locked."""
    paths = [path for path in files_below(Path(folder).absolute()) if has_format(path, None)]
    folders = {path: folder_of_sender(path, str(Path(folder).absolute())) for path in paths}
    if len(select_readable(paths, no_progress, folders)) < len(paths):
        return True
    stamps = read_stamps(paths)
    if sum(size for _, size in stamps.values()) > UNCACHED_BYTES:
        hashes = fetched_files.read_hash_cache(home)
        if any(path not in hashes or hashes[path][:2] != stamp for path, stamp in stamps.items()):
            return True
    offered = hash_files(home, stamps, tolerant=True, folders=folders)
    known, folder = KnownFiles(home, kind, [file.sha256 for file in offered]), str(Path(folder).absolute())
    return any(_find_known(settings, folder, known, file.path, file.sha256) is None for file in offered)


def summarize_since(home: Home, since: dt.datetime) -> dict[str, Any]:
    """Return the batches that were done, and the counts of the files that were ingested, at `since` or later.

    Returns {"ingest": {kind: {"files", "rows", "accepted", "rejected", "rejects_by_reason"}}, "batches": as `match`
    returns them}; a kind without such files is left out. A retried job needs this, as each try knows only its own work.
    """
    batches = read_latest(home, names.BATCHES, "batch_id", filter=pds.field("finished_at") >= since).to_pylist()
    done = [batch_summary(batch) for batch in batches if batch["status"] == "done"]
    done_since = (pds.field("started_at") >= since) & (pds.field("status") == "done")
    is_file = pds.field("withdrawal_id").is_null() & pds.field("statistics_version").is_null()
    files = read_files(home, done_since & is_file)
    by_kind = {kind: [file for file in files if file["kind"] == kind] for kind in KINDS}
    return {"ingest": {kind: _count(home, of_kind) for kind, of_kind in by_kind.items() if of_kind}, "batches": done}


def _count(home: Home, files: list[FileRow]) -> dict[str, Any]:
    numbers = sorted({file["ingest_id"] for file in files})
    mine = pds.field("ingest_id").isin(numbers) & (pds.field("kind") == files[0]["kind"])
    reasons = Counter[str]()
    for rejects in latest_dataset(home.table(names.REJECTS)).to_batches(columns=["reason"], filter=mine):
        reasons.update(rejects.column(0).to_pylist())
    sums = {name: sum(file[name] for file in files) for name in ("accepted", "rejected")}
    rows = {"rows": sums["accepted"] + sums["rejected"]}
    return {"files": len(files), **rows, **sums, "rejects_by_reason": dict(sorted(reasons.items()))}


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


FATAL = (UsageError, SettingError, HomeError)
"""Errors that every further round would meet again."""

LEDGER_SECONDS = 5.0
"""The ledger is read this often, for files that other commands have ingested or released."""

WARM_SECONDS = 25.0
"""Spark ends Python workers that are idle for a minute, so they get a small task this often."""

PAIRS_SECONDS = 60.0
"""With the setting `pairs_table` = `run`, the table is updated this often at most: an update takes seconds of Spark."""

MAX_SCAN_SHARE = 0.05
"""Share of the time that scans of a landing folder with many files may take."""

MIN_PAUSE, MAX_PAUSE = 1.0, 60.0
"""Seconds after a round that failed: MIN_PAUSE, twice as long after each further failure, at most MAX_PAUSE."""

STEP_SECONDS = 0.25


def watch(
    home: Home,
    settings: Settings,
    landing: str,
    options: ReaderOptions,
    max_objects: int | None = None,
    progress: Progress = no_progress,
    metrics: Address | None = None,
) -> dict[str, Any]:
    """Ingest files as they land, match, deliver and answer until SIGTERM or SIGINT; call it in the main thread.

    A round ingests the files that are ready, matches one batch, and answers files of questions. The home is locked only
    during an ingest and a batch, so that upkeep gets its turn in between; the scope RUNNER is locked all the time, so
    that no second runner starts. A round that fails does not end the watcher: the next round comes after a pause, which
    doubles until a round succeeds.

    metrics: where to serve the metrics of the home; None: nowhere

    Returns {"batches": n, "objects": n, "matches": n, "changes": n (of answers), "questions": n, "failures": rounds
    that failed, "abandoned": whether a step is left for the next command to finish}. Raises RunnerBusy while another
    runner uses the home; errors of usage, settings, suites and home; RetryableError when Spark has died.
    """
    home.check()
    if local_path(landing) is None:
        raise UsageError(f"{landing}: a bucket is not watched", "give a folder, or run without --watch, on a schedule")
    check_landing(landing)
    load_landed_suites(home, KINDS)
    if settings.pairs_table == names.AFTER_RUNS:
        check_jars(settings, home)
    with (
        home.locked(RUNNER, RunnerBusy),
        serve_metrics(home, metrics, progress),
        GracefulShutdown(kill_spark) as shutdown,
        Heartbeat(home) as heart,
    ):
        scanner = LandingScanner(landing, options.format, settings.watch_seconds)
        watcher = _Watcher(home, settings, landing, scanner, options, max_objects, progress, heart, shutdown)
        try:
            watcher.start()
            watcher.run_rounds()
            if not shutdown.abandoned:
                watcher.sinks.stop()
        except Abandoned:
            pass
        except Exception:
            # A step that waited for Spark, which was killed, may have raised another error.
            if not shutdown.abandoned:
                raise
        shutdown.finish()
        progress(
            "watcher stopped" + (": an unfinished step is left for the next command" if shutdown.abandoned else "")
        )
        return watcher.totals | {"abandoned": shutdown.abandoned}


@dataclass
class _Watcher:
    home: Home
    settings: Settings
    landing: str
    scanner: LandingScanner
    options: ReaderOptions
    max_objects: int | None
    progress: Progress
    heart: Heartbeat
    shutdown: GracefulShutdown
    totals: dict[str, Any] = field(
        default_factory=lambda: dict.fromkeys(("batches", "objects", "matches", "changes", "questions", "failures"), 0)
    )
    _failed: int = 0
    _pending: bool = True
    _ledger_at: float = -LEDGER_SECONDS
    _warm_at: float = 0.0
    _pairs_at: float = -PAIRS_SECONDS
    _batches_version: int = -1
    _pairs_version: int = -1

    def __post_init__(self) -> None:
        self.sinks = SinkThreads(self.home, self.settings, self.progress)

    def start(self) -> None:
        """Start the engine, load the kernels in its workers, and start the sinks, before the first file comes."""
        get_engine(self.settings)
        self.shutdown.install_handlers()
        self._warm_up()
        self.sinks.start()
        self.finish_answers()
        self.progress("watcher started")

    def finish_answers(self) -> None:
        """Finish files of questions that a killed process has begun; they may have left the landing folder."""
        if unfinished_files(self.home):
            with suppress(HomeBusy):  # they are finished with the next file of questions
                self._answer([])

    def run_rounds(self) -> None:
        """Run round after round until a shutdown is requested."""
        while not self.shutdown.requested:
            # A large batch may have started Spark, which replaces the handler of SIGINT.
            self.shutdown.install_handlers()
            pause = self._try_round()
            turn = self.home.storage.turn_seconds
            least = turn if self._pending else self.settings.watch_seconds
            self._pause(max(pause, least, self.scanner.scan_seconds / MAX_SCAN_SHARE))

    def _try_round(self) -> float:
        """Run a round; return the least number of seconds to wait before the next.

        Raises RetryableError if another process has taken over the runner's lock.
        """
        if self.home.has_lost_lock():
            raise RetryableError("another process has taken over the lock of the runner", "start the watcher again")
        try:
            self._round()
        except HomeBusy as error:
            self._report("waiting", error=str(error.holder))
            return min(self.settings.watch_seconds, MIN_PAUSE)
        except FATAL:
            raise
        except Exception as error:
            if not self.shutdown.requested:
                return self._handle_failure(error)
        else:
            self._failed = 0
            self._report("working" if self._pending else "idle", failures=0, error=None)
        return 0.0

    def _round(self) -> None:
        """Ingest the files that are ready, and match a batch if rows may be pending."""
        ready = self.scanner.scan()
        if not ready and self.scanner.has_unstable_files:
            # Otherwise a file that has just landed would wait for the next round to be scanned again.
            self._pause(self.settings.watch_seconds)
            ready = self.scanner.scan()
        if ready:
            self._pending = True
            self._report("working")
        questions = ready.pop(QUESTIONS, [])
        for kind, paths in ready.items():
            if self.shutdown.requested:
                return
            folder = self.scanner.folder(kind)
            try:
                settled = replace(self.settings, settle_seconds=0)  # the scanner has seen these files unchanged
                done = ingest_landed(self.home, settled, kind, paths, self.options, self.progress, folder)
                passed_over = done["passed_over"]
            except PassingError as error:  # no file could be read: later ones must not wait for them
                passed_over = [str(Path(path).absolute()) for path in paths]
                if error.path not in passed_over:
                    raise
            self.scanner.mark_ingested(paths, passed_over)
        if ready:
            self.scanner.scan()  # files that landed during the ingest may be ready when the batch is done
        if not self.shutdown.requested and (self._pending or time.monotonic() - self._ledger_at > LEDGER_SECONDS):
            self._match()
        if questions and not self.shutdown.requested:
            self._answer(questions)
        if self.settings.pairs_table == names.AFTER_RUNS and not self.shutdown.requested:
            self._update_pairs()
        if time.monotonic() - self._warm_at > WARM_SECONDS:
            self._warm_up()

    def _answer(self, paths: list[str]) -> None:
        """Answer files of questions; those that cannot be answered now are tried again later."""
        passed_over: Collection[str] = [str(Path(path).absolute()) for path in paths]
        try:
            done = answer_landed_questions(
                self.home, self.settings, self.landing, paths, self.progress, wait_seconds=0.0
            )
            passed_over = done["passed_over"]
            self.totals["questions"] += done["questions"]
        except QuestionsBusy as error:
            self.progress(LogMessage(f"questions wait: {error.holder}"))
        except RetryableError as error:
            self.progress(LogMessage(f"questions are tried again: {mask_urls(str(error))}", level="warning"))
        self.scanner.mark_ingested(paths, passed_over)

    def _update_pairs(self) -> None:
        """Update the table of pairs if PAIRS_SECONDS have passed and a batch was done since."""
        if time.monotonic() - self._pairs_at < PAIRS_SECONDS or self._batches_version == self._pairs_version:
            return
        self._pairs_at = time.monotonic()
        with suppress(PairsBusy):  # what updates it now may have begun before the last batch
            update_pairs(self.home, self.settings, progress=self.progress)
            self._pairs_version = self._batches_version

    def _warm_up(self) -> None:
        """Load the kernels in the engine's workers; not on a cluster, which may give its executors to others."""
        engine = get_engine(self.settings)
        if not runs_elsewhere(self.settings):
            engine.run_tasks(range(engine.parallelism), _load_kernels)
        self._warm_at = time.monotonic()

    def _match(self) -> None:
        done = match(self.home, self.settings, max_objects=self.max_objects, one=True, progress=self.progress)
        self._ledger_at = time.monotonic()
        self._pending = bool(done["batches"])
        if (version := table_version(self.home.table(names.BATCHES))) != self._batches_version:
            # It was changed by a batch of this round, of a failed round or of another command.
            self._batches_version = version
            self.sinks.wake()
        if not self._pending:
            self.scanner.mark_matched()
            return
        self.totals["batches"] += 1
        for name in ("objects", "matches", "changes"):
            self.totals[name] += done[name]
        batch_id, batch_at = done["batches"][-1]["batch_id"], iso(utc_now(), "milliseconds")
        self._report("working", batches=self.totals["batches"], batch_id=batch_id, batch_at=batch_at)

    def _handle_failure(self, error: Exception) -> float:
        """Log a failed round; return the seconds to wait. Raises RetryableError if Spark has died."""
        reason = f"{type(error).__name__}: {(mask_urls(str(error)).splitlines() or [''])[0]}"
        if spark_has_died():
            raise RetryableError(f"Spark has died; {reason}", "start the watcher again: it continues where it stopped")
        self._failed += 1
        self.totals["failures"] += 1
        pause = min(MIN_PAUSE * 2.0 ** (self._failed - 1), MAX_PAUSE)
        text = f"round failed ({self._failed} in a row), next one in {duration(pause)}: {reason}"
        self.progress(LogMessage(text, level="warning"))
        self._report("failing", failures=self._failed, error=reason)
        return pause

    def _report(self, state: str, **changes: Any) -> None:
        self.heart.report(state, self.scanner.matched_until, waiting_files=self.scanner.waiting_files, **changes)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.shutdown.requested and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, STEP_SECONDS))


def _load_kernels(_: int) -> None:
    load_kernels()
