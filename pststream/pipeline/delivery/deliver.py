"""Send the messages of finished batches to all sinks in parallel, once (`pststream deliver`) or in a watcher's threads.

Each sink has its own thread, time, lock and delivery position, so that a slow or dead sink delays no other sink and no
matching: delivery needs neither Spark nor the home's lock. A sink's position is saved about once a second; after a
crash the messages since then are delivered again, with equal ids.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from pststream.base import names
from pststream.base.errors import HomeBusy, PstError, UsageError
from pststream.base.progress import LogMessage, Progress, no_progress
from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, RetryPolicy, Sink, SinkDown, lane_of
from pststream.delivery.sinks.registry import kind_of, open_sink
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery.outbox import Limit, Outbox
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.deliveries import (
    BEHIND,
    DOWN,
    OK,
    Counts,
    SinkProgress,
    compact_progress,
    count_dead,
    dead_letters,
    mark_delivered,
    read_progress,
    save_dead_letters,
    save_progress,
)
from pststream.state.home import Home
from pststream.tables.ledgers import Ledger

SAVE_SECONDS = 1.0
"""Interval at which the delivery position is saved: a commit costs as much as a request."""


class SinkSender:
    """Deliveries to one sink in one run; keeps one batch of messages in memory.

    progress            the sink's delivery position
    deadline            in the clock of `time.monotonic`; it is `seconds` after the first message is ready, so that a
                        large batch, which takes long to sort, advances in each run
    last_response       when the sink last responded, or messages became ready, in the clock of `time.monotonic`
    delivered, refused  messages of this run
    """

    def __init__(self, home: Home, settings: SinkSettings, sink: Sink, outbox: Outbox, seconds: float) -> None:
        self.progress = read_progress(home, settings.name)
        self.delivered = self.refused = 0
        self.last_response = -math.inf
        self._home = home
        self._settings = settings
        self._sink = sink
        self._outbox = outbox
        # A sink that was down at the end of the last run is tried once, and again in the next run.
        self._retry = RetryPolicy(1 if self.progress.state == DOWN else settings.tries, math.inf)
        self._seconds = seconds
        self._saved = (self.progress, Counts())
        self._saved_at = time.monotonic()

    @property
    def failures(self) -> int:
        """Failed tries of this run."""
        return self._retry.failures

    @property
    def deadline(self) -> float:
        """When the time of this run is over."""
        return self._retry.deadline

    def deliver(self) -> tuple[str, str | None]:
        """Deliver until nothing is left, the time is over, or the sink is down; return the state, and a reason."""
        state, reason = OK, None
        try:
            if not all(self._deliver_batch(batch_id) for batch_id in self.due().tolist()):
                state = BEHIND
        except SinkDown as error:
            state, reason = DOWN, str(error)
        except Exception:
            if self.delivered or self.refused:  # otherwise the messages since the last save are delivered again
                self._save(self.progress.state, None)
            raise
        self._save(state, reason)
        return state, reason

    def due(self) -> np.ndarray:
        """Return the batches that are not completely delivered to the sink: int64[n], ascending."""
        first = max(self._settings.from_batch, self.progress.batch_id + self.progress.complete)
        return self._outbox.batches[self._outbox.batches >= first]

    def _deliver_batch(self, batch_id: int) -> bool:
        """Deliver a batch from its position on; return false if the time is over before its end. Raises SinkDown."""
        if self._is_over():
            return False
        if self.progress.batch_id != batch_id:
            limit, seconds = self._settings.limit, self._settings.limit_seconds
            self.progress = SinkProgress(batch_id, 0, False, limit, seconds, self.progress.state)
        limits = Limit(self.progress.message_limit, self.progress.limit_seconds)
        messages = self._outbox.messages(batch_id, limits, self.progress.position)
        for some in split_for_sink(messages, self._sink):
            self._note_response()  # the time until here went into reading tables, not into the sink
            if self._is_over():
                return False
            self._retry.deadline = min(self.deadline, time.monotonic() + self._seconds)
            batch = MessageBatch(f"{batch_id:08}-{self.progress.position:09}", some, self._note_response)
            refusals = deliver_batch(self._retry, self._sink, batch)
            crash_point("deliver.sent")
            self._advance(batch_id, some, refusals)
        self.progress = replace(self.progress, complete=True)
        return True

    def _note_response(self) -> None:
        self.last_response = time.monotonic()

    def _is_over(self) -> bool:
        return time.monotonic() > self.deadline

    def _advance(self, batch_id: int, messages: Sequence[Message], refusals: Sequence[Refusal]) -> None:
        """Save the refused messages as dead letters, and advance the position."""
        if refusals:
            letters = [
                {
                    "sink": self._settings.name,
                    "message_id": refusal.message.id,
                    "batch_id": batch_id,
                    "owner": refusal.message.owner,
                    "subscription_id": refusal.message.subscription_id,
                    "kind": refusal.message.kind,
                    "reason": refusal.reason,
                    "message": refusal.message.body.decode("ascii"),
                }
                for refusal in refusals
            ]
            save_dead_letters(self._home, letters)
            crash_point("deliver.dead_letters")
        self._retry.tries = self._settings.tries
        self.delivered += len(messages) - len(refusals)
        self.refused += len(refusals)
        self.progress = replace(self.progress, position=self.progress.position + len(messages))
        if time.monotonic() - self._saved_at > SAVE_SECONDS:
            self._save(OK, None)

    def _save(self, state: str, reason: str | None) -> None:
        """Save the position and the counts since the last save, if anything has changed."""
        self.progress = replace(self.progress, state=state)
        counts = Counts(self.delivered, self.refused, self.failures)
        if (self.progress, counts) == self._saved:
            return
        before = self._saved[1]
        since = Counts(*(now - then for now, then in zip(vars(counts).values(), vars(before).values())))
        save_progress(self._home, self._settings.name, self.progress, since, reason)
        crash_point("deliver.saved")
        self._saved, self._saved_at = (self.progress, counts), time.monotonic()


def deliver_batch(retry: RetryPolicy, sink: Sink, batch: MessageBatch) -> list[Refusal]:
    """Deliver a batch of `split_for_sink`; a message over the sink's bound is refused, not sent. Raises SinkDown."""
    if len(batch.messages[0].body) > sink.max_bytes:
        return [Refusal(batch.messages[0], f"larger than {sink.max_bytes} bytes, the bound of this kind of sink")]
    return retry.deliver(sink, batch)


def split_for_sink(messages: Iterable[Message], sink: Sink) -> Iterator[tuple[Message, ...]]:
    """Split messages, in order, into batches that the sink accepts; a message over its bound comes alone."""
    buffered: list[Message] = []
    size = 0
    in_lane = [0] * sink.lanes
    for message in messages:
        lane = lane_of(message.subscription_id, sink.lanes) if sink.lanes > 1 else 0
        if buffered and (in_lane[lane] == sink.max_messages or size + len(message.body) > sink.max_bytes):
            yield tuple(buffered)
            buffered, size, in_lane = [], 0, [0] * sink.lanes
        buffered.append(message)
        size += len(message.body)
        in_lane[lane] += 1
    if buffered:
        yield tuple(buffered)


SinkOpener = Callable[[SinkSettings], Sink]

GRACE_SECONDS = 15.0
"""How long delivery waits for a sink that does not return, beyond its delivery time and the timeout of a request."""

POLL_SECONDS = 0.1

BUSY, FAILED, STUCK = "busy", "failed", "stuck"
COUNTED = ("delivered", "refused", "failures")


def deliver(
    home: Home,
    settings: Settings,
    only: str | None = None,
    progress: Progress = no_progress,
    opener: SinkOpener = open_sink,
) -> dict[str, Any]:
    """Deliver to every sink (or the one named `only`) what batches have matched, within `delivery_seconds` each.

    Returns {"sinks": {name: {"kind", "state", "reason", "batch_id", "batches_left", "delivered", "refused", "failures",
    "seconds"}}}. States: ok (nothing is left), behind (the time is over), down, busy (another process delivers to it),
    failed (an error of this program), stuck (it does not return). Raises UsageError where `only` names no sink, and
    SettingError for an unknown kind of sink, before any work.
    """
    home.check()
    selected = select_sinks(settings, only)
    if not selected:
        return {"sinks": {}}
    positions = [(sink, read_progress(home, sink.name)) for sink in selected]
    first = min((max(sink.from_batch, saved.batch_id) for sink, saved in positions), default=0)
    longest = max((max(sink.limit and sink.limit_seconds, saved.limit_seconds) for sink, saved in positions), default=0)
    outbox = Outbox(home, first, longest)
    runs = [_SinkRun(sink) for sink in selected]
    for run in runs:
        work = (home, outbox, settings.delivery_seconds, progress, opener)
        run.thread = threading.Thread(target=run.run, args=work, daemon=True)
        run.thread.start()
    for run in runs:
        while run.thread.is_alive() and time.monotonic() < run.end:
            run.thread.join(POLL_SECONDS)
    for run in runs:
        run.save_fault(home)
    compact_progress(home)
    return {"sinks": {run.sink.name: dict(run.outcome) for run in runs}}


def select_sinks(settings: Settings, only: str | None) -> list[SinkSettings]:
    """Return the sinks, or the one of this name. Raises UsageError, and SettingError for an unknown kind."""
    selected = [sink for sink in settings.sinks if only in (None, sink.name)]
    if only is not None and not selected:
        known = ", ".join(sink.name for sink in settings.sinks) or "none; see docs/delivery.md"
        raise UsageError(f"sink {only!r} is unknown", f"sinks of this home: {known}")
    for sink in selected:
        kind_of(sink)
    return selected


@dataclass
class _SinkRun:
    """One sink in one run, with its outcome."""

    sink: SinkSettings
    thread: threading.Thread = field(default_factory=threading.Thread)
    outcome: dict[str, Any] = field(default_factory=dict)
    sender: SinkSender | None = None

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("batch_id", "batches_left", "delivered", "refused", "failures", "seconds"), 0)
        self.outcome = {"kind": self.sink.kind, "state": STUCK, "reason": "it does not return", **counts}

    @property
    def end(self) -> float:
        """Time (of `time.monotonic`) until which `deliver` waits for this sink; each response extends it."""
        last = max(self.sender.deadline, self.sender.last_response) if self.sender else math.inf
        return last + self.sink.timeout_seconds + GRACE_SECONDS

    def run(self, home: Home, outbox: Outbox, seconds: int, progress: Progress, opener: SinkOpener) -> None:
        """Deliver; raises nothing."""
        began = time.monotonic()
        try:
            with home.locked(f"deliver-{self.sink.name}"):
                self.sender = sender = SinkSender(home, self.sink, opener(self.sink), outbox, seconds)
                state, reason = sender.deliver()
                left = len(sender.due())
            outcome = {"state": state, "reason": reason, "batch_id": sender.progress.batch_id, "batches_left": left}
        except HomeBusy:
            outcome = {"state": BUSY, "reason": "another process is delivering to it"}
        except PstError as error:
            outcome = {"state": FAILED, "reason": str(error)}
        except Exception as error:
            # Not its text: a library's error may quote a target, and a token with it.
            outcome = {"state": FAILED, "reason": type(error).__name__}
        sent = {name: getattr(self.sender, name) for name in COUNTED} if self.sender else {}  # also if it failed
        self.outcome |= sent | outcome | {"seconds": round(time.monotonic() - began, 3)}
        counts = ", ".join(f"{self.outcome[name]} {name}" for name in ("delivered", "refused"))
        reason = f": {self.outcome['reason']}" if self.outcome["reason"] else ""
        progress(f"sink {self.sink.name}: {self.outcome['state']}, {counts}{reason}")

    def save_fault(self, home: Home) -> None:
        """Save that the sink failed or is stuck, which its sender could not save itself."""
        if self.outcome["state"] in (FAILED, STUCK):
            saved = replace(read_progress(home, self.sink.name), state=self.outcome["state"])
            save_progress(home, self.sink.name, saved, Counts(), self.outcome["reason"])


def is_well(document: dict[str, Any]) -> bool:
    """Whether no sink of an outcome needs attention."""
    return all(outcome["state"] in (*names.UP_STATES, BUSY) for outcome in document["sinks"].values())


def waiting_sinks(home: Home, settings: Settings) -> list[str]:
    """Return the names of the sinks that a finished batch waits for, or whose last delivery did not end well.

    Reads the ledger and the delivery positions only.
    """
    if not settings.sinks:
        return []
    ledger = Ledger(home)
    finished = ledger.next_batch_id - 1 - bool(ledger.unfinished_batch())
    waiting = []
    for sink in settings.sinks:
        progress = read_progress(home, sink.name)
        first = max(sink.from_batch, progress.batch_id + progress.complete)
        if first <= finished or progress.state != OK:
            waiting.append(sink.name)
    return waiting


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


def replay_letters(
    home: Home,
    settings: Settings,
    only: str | None = None,
    progress: Progress = no_progress,
    opener: SinkOpener = open_sink,
) -> dict[str, Any]:
    """Deliver the dead letters of every sink, or of one, again, with the same ids and bytes.

    Returns {"sinks": {name: {"delivered", "dead", "reason"}}}, where `dead` counts the remaining dead letters. Raises
    UsageError where `only` names no sink, and SettingError for an unknown kind of sink.
    """
    home.check()
    outcomes: dict[str, Any] = {}
    for sink_settings in select_sinks(settings, only):
        name, delivered, reason = sink_settings.name, 0, None
        retry = RetryPolicy(sink_settings.tries, time.monotonic() + settings.delivery_seconds)
        try:
            with home.locked(f"deliver-{name}"):
                sink = opener(sink_settings)
                for rows in dead_letters(home, name):
                    delivered += _deliver(home, sink, retry, rows)
        except (SinkDown, PstError) as error:
            reason = str(error)
        outcomes[name] = {"delivered": delivered, "dead": count_dead(home, name), "reason": reason}
        progress(f"sink {name}: {delivered} dead letters delivered, {outcomes[name]['dead']} left")
    return {"sinks": outcomes}


def list_letters(home: Home, settings: Settings, only: str | None, limit: int) -> list[dict[str, Any]]:
    """List at most `limit` dead letters of every sink, or of one, without the messages themselves."""
    home.check()
    rows = (row for sink in select_sinks(settings, only) for rows in dead_letters(home, sink.name) for row in rows)
    return [
        {"at" if name == "written_at" else name: value for name, value in row.items() if name != "message"}
        for row in islice(rows, limit)
    ]


def _deliver(home: Home, sink: Sink, retry: RetryPolicy, rows: list[dict[str, Any]]) -> int:
    """Deliver some dead letters; return how many the sink accepted."""
    row_of = {row["message_id"]: row for row in rows}
    messages = (
        Message(row["message_id"], row["kind"], row["subscription_id"], row["message"].encode("ascii"), row["owner"])
        for row in rows
    )
    accepted = 0
    for some in split_for_sink(messages, sink):
        batch = MessageBatch(f"replay-{some[0].id}", some)
        refused = {refusal.message.id for refusal in deliver_batch(retry, sink, batch)}
        crash_point("deliver.replayed")
        delivered = [row_of[message.id] for message in some if message.id not in refused]
        mark_delivered(home, delivered)
        accepted += len(delivered)
    return accepted
