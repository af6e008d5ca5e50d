"""Send the messages of finished batches to one sink from its saved position on; save position and dead letters."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, RetryPolicy, Sink, SinkDown, lane_of
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery.outbox import Limit, Outbox
from pststream.state.crash_points import crash_point
from pststream.state.deliveries import (
    BEHIND,
    DOWN,
    OK,
    Counts,
    SinkProgress,
    read_progress,
    save_dead_letters,
    save_progress,
)
from pststream.state.home import Home

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
            save_dead_letters(self._home, [self._dead_letter(batch_id, refusal) for refusal in refusals])
            crash_point("deliver.dead_letters")
        self._retry.tries = self._settings.tries
        self.delivered += len(messages) - len(refusals)
        self.refused += len(refusals)
        self.progress = replace(self.progress, position=self.progress.position + len(messages))
        if time.monotonic() - self._saved_at > SAVE_SECONDS:
            self._save(OK, None)

    def _dead_letter(self, batch_id: int, refusal: Refusal) -> dict[str, Any]:
        """Return a row of the dead letters."""
        message = refusal.message
        return {
            "sink": self._settings.name,
            "message_id": message.id,
            "batch_id": batch_id,
            "subscription_id": message.subscription_id,
            "kind": message.kind,
            "reason": refusal.reason,
            "message": message.body.decode("ascii"),
        }

    def _save(self, state: str, reason: str | None) -> None:
        """Save the position and the counts since the last save, if anything has changed."""
        self.progress = replace(self.progress, state=state)
        counts = Counts(self.delivered, self.refused, self.failures)
        before = self._saved[1]
        if (self.progress, counts) == self._saved:
            return
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
