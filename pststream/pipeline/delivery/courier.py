"""A courier: tells one sink what batches have found, from where it was left."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pststream.delivery.contract import Batch, Message, Refusal, Sink, SinkDown, lane_of
from pststream.delivery.retry import Patience
from pststream.pipeline.delivery.outbox import Limit, Outbox
from pststream.sink_settings import SinkSettings
from pststream.state.crash_points import crash_point
from pststream.state.deliveries import BEHIND, DOWN, OK, Counts, Progress, bury, progress_of, save_progress
from pststream.state.home import Home

NOTE_SECONDS = 1.0
"""A sink's place is noted about this often: a commit costs as much as a request."""


class Courier:
    """One sink's deliveries in one run; holds one portion of messages.

    place      how far the sink was told
    deadline   as `time.monotonic` tells; it is `seconds` after the first message is at hand, so that a large batch,
               which takes long to be sorted, gets on in each run
    heard      when the sink last answered, or a portion was at hand, as `time.monotonic` tells
    delivered, refused   messages of this run
    """

    def __init__(self, home: Home, settings: SinkSettings, sink: Sink, outbox: Outbox, seconds: float) -> None:
        self.place = progress_of(home, settings.name)
        self.delivered = self.refused = 0
        self.heard = -math.inf
        self._home = home
        self._settings = settings
        self._sink = sink
        self._outbox = outbox
        # One that was down at the end of the last run is looked at once, and again in the next run.
        self._patience = Patience(1 if self.place.state == DOWN else settings.tries, math.inf)
        self._seconds = seconds
        self._noted = (self.place, Counts())
        self._noted_at = time.monotonic()

    @property
    def failures(self) -> int:
        """Tries that failed in this run."""
        return self._patience.failures

    @property
    def deadline(self) -> float:
        """When the time is up."""
        return self._patience.deadline

    def deliver(self) -> tuple[str, str | None]:
        """Deliver until nothing is left, the time is up, or the sink is down: the state, and why it is down."""
        state, reason = OK, None
        try:
            if not all(self._tell(batch_id) for batch_id in self.due().tolist()):
                state = BEHIND
        except SinkDown as error:
            state, reason = DOWN, str(error)
        except Exception:
            if self.delivered or self.refused:  # else what the sink was told since the last note is told again
                self._note(self.place.state, None)
            raise
        self._note(state, reason)
        return state, reason

    def due(self) -> np.ndarray:
        """Batches of which the sink has not been told all: int64[n], ascending."""
        first = max(self._settings.from_batch, self.place.batch_id + self.place.complete)
        return self._outbox.batches[self._outbox.batches >= first]

    def _tell(self, batch_id: int) -> bool:
        """Deliver a batch from where it was left; false if the time is up before its end. Raises SinkDown."""
        if self._late():
            return False
        if self.place.batch_id != batch_id:
            limit, seconds = self._settings.limit, self._settings.limit_seconds
            self.place = Progress(batch_id, 0, False, limit, seconds, self.place.state)
        limits = Limit(self.place.limit, self.place.limit_seconds)
        messages = self._outbox.messages(batch_id, limits, self.place.told)
        for part in portions(messages, self._sink):
            self._hear()  # what was waited for until now is our own reading
            if self._late():
                return False
            self._patience.deadline = min(self.deadline, time.monotonic() + self._seconds)
            refusals = self._patience.deliver(
                self._sink, Batch(f"{batch_id:08}-{self.place.told:09}", part, self._hear)
            )
            crash_point("deliver.sent")
            self._count(batch_id, part, refusals)
        self.place = replace(self.place, complete=True)
        return True

    def _hear(self) -> None:
        self.heard = time.monotonic()

    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _count(self, batch_id: int, part: Sequence[Message], refusals: Sequence[Refusal]) -> None:
        """Bury what was refused, and advance."""
        if refusals:
            bury(self._home, [self._letter(batch_id, refusal) for refusal in refusals])
            crash_point("deliver.buried")
        self._patience.tries = self._settings.tries
        self.delivered += len(part) - len(refusals)
        self.refused += len(refusals)
        self.place = replace(self.place, told=self.place.told + len(part))
        if time.monotonic() - self._noted_at > NOTE_SECONDS:
            self._note(OK, None)

    def _letter(self, batch_id: int, refusal: Refusal) -> dict[str, Any]:
        """A row of the dead letters."""
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

    def _note(self, state: str, reason: str | None) -> None:
        """Save the place and what was counted since it was last saved, if there is something new."""
        self.place = replace(self.place, state=state)
        counts = Counts(self.delivered, self.refused, self.failures)
        before = self._noted[1]
        if (self.place, counts) == self._noted:
            return
        since = Counts(*(now - then for now, then in zip(vars(counts).values(), vars(before).values())))
        save_progress(self._home, self._settings.name, self.place, since, reason)
        crash_point("deliver.noted")
        self._noted, self._noted_at = (self.place, counts), time.monotonic()


def portions(messages: Iterable[Message], sink: Sink) -> Iterator[tuple[Message, ...]]:
    """Messages in portions as the sink takes them."""
    held: list[Message] = []
    held_bytes = 0
    in_lane = [0] * sink.lanes
    for message in messages:
        lane = lane_of(message.subscription_id, sink.lanes) if sink.lanes > 1 else 0
        if held and (in_lane[lane] == sink.most_messages or held_bytes + len(message.body) > sink.most_bytes):
            yield tuple(held)
            held, held_bytes, in_lane = [], 0, [0] * sink.lanes
        held.append(message)
        held_bytes += len(message.body)
        in_lane[lane] += 1
    if held:
        yield tuple(held)
