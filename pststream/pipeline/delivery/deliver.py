"""Delivery: what the batches that are done have found, told to every sink.

Each sink has a thread, a time, a lock and a place of its own, so that one that is slow or dead holds back no other, nor
any matching: delivery needs neither Spark nor the home's lock. A sink's place is noted about once a second; after a
crash what came since is delivered again, with equal ids.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pststream.delivery.contract import Sink
from pststream.delivery.registry import open_sink
from pststream.errors import HomeBusy, PstError, UsageError
from pststream.pipeline.delivery.courier import Courier
from pststream.pipeline.delivery.outbox import Outbox
from pststream.progress import Progress, no_progress
from pststream.settings import Settings
from pststream.sink_settings import SinkSettings
from pststream.state.deliveries import OK, Counts, compact_progress, progress_of, save_progress
from pststream.state.home import Home

Opener = Callable[[SinkSettings], Sink]

GRACE_SECONDS = 15.0
"""How long a sink that does not come back is waited for, beyond its time and that of one request."""

POLL_SECONDS = 0.1

BUSY, FAILED, STUCK = "busy", "failed", "stuck"
COUNTED = ("delivered", "refused", "failures")


def deliver(
    home: Home,
    settings: Settings,
    only: str | None = None,
    progress: Progress = no_progress,
    opener: Opener = open_sink,
) -> dict[str, Any]:
    """Tell every sink (or the one named `only`) what batches have found, as far as `delivery_seconds` reach.

    Returns {"sinks": {name: {"kind", "state", "reason", "batch_id", "batches_left", "delivered", "refused", "failures",
    "seconds"}}}. States: ok (nothing is left), behind (the time was up), down, busy (another process delivers to it),
    failed (a fault of ours), stuck (it does not come back). Raises UsageError where `only` names no sink.
    """
    home.check()
    chosen = sinks_of(settings, only)
    if not chosen:
        return {"sinks": {}}
    places = [(sink, progress_of(home, sink.name)) for sink in chosen]
    first = min((max(sink.from_batch, place.batch_id) for sink, place in places), default=0)
    longest = max((max(sink.limit and sink.limit_seconds, place.limit_seconds) for sink, place in places), default=0)
    outbox = Outbox(home, first, longest)
    runs = [_Run(sink) for sink in chosen]
    for run in runs:
        work = (home, outbox, settings.delivery_seconds, progress, opener)
        run.thread = threading.Thread(target=run.run, args=work, daemon=True)
        run.thread.start()
    for run in runs:
        while run.thread.is_alive() and time.monotonic() < run.end:
            run.thread.join(POLL_SECONDS)
    for run in runs:
        run.note(home)
    compact_progress(home)
    return {"sinks": {run.sink.name: dict(run.outcome) for run in runs}}


def sinks_of(settings: Settings, only: str | None) -> list[SinkSettings]:
    """The sinks, or the one of this name."""
    chosen = [sink for sink in settings.sinks if only in (None, sink.name)]
    if only is not None and not chosen:
        known = ", ".join(sink.name for sink in settings.sinks) or "none; see docs/delivery.md"
        raise UsageError(f"sink {only!r} is unknown", f"sinks of this home: {known}")
    return chosen


@dataclass
class _Run:
    """One sink in one run, and what became of it."""

    sink: SinkSettings
    thread: threading.Thread = field(default_factory=threading.Thread)
    outcome: dict[str, Any] = field(default_factory=dict)
    courier: Courier | None = None

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("batch_id", "batches_left", "delivered", "refused", "failures", "seconds"), 0)
        self.outcome = {"kind": self.sink.kind, "state": STUCK, "reason": "it does not come back", **counts}

    @property
    def end(self) -> float:
        """When it is not waited for any more, if it says nothing until then."""
        last = max(self.courier.deadline, self.courier.heard) if self.courier else math.inf
        return last + self.sink.timeout_seconds + GRACE_SECONDS

    def run(self, home: Home, outbox: Outbox, seconds: int, progress: Progress, opener: Opener) -> None:
        """Deliver; raises nothing."""
        began = time.monotonic()
        try:
            with home.locked(f"deliver-{self.sink.name}"):
                self.courier = Courier(home, self.sink, opener(self.sink), outbox, seconds)
                found = self._deliver(self.courier)
        except HomeBusy:
            found = {"state": BUSY, "reason": "another process delivers to it just now"}
        except PstError as error:
            found = {"state": FAILED, "reason": str(error)}
        except Exception as error:
            # Not its text: a library's error may quote a target, and a token with it.
            found = {"state": FAILED, "reason": type(error).__name__}
        self.outcome |= self._counts() | found | {"seconds": round(time.monotonic() - began, 3)}
        told = ", ".join(f"{self.outcome[name]} {name}" for name in ("delivered", "refused"))
        reason = f": {self.outcome['reason']}" if self.outcome["reason"] else ""
        progress(f"sink {self.sink.name}: {self.outcome['state']}, {told}{reason}")

    def note(self, home: Home) -> None:
        """Save that it needs attention, where it could not do so itself."""
        if self.outcome["state"] in (FAILED, STUCK):
            place = replace(progress_of(home, self.sink.name), state=self.outcome["state"])
            save_progress(home, self.sink.name, place, Counts(), self.outcome["reason"])

    def _deliver(self, courier: Courier) -> dict[str, Any]:
        state, reason = courier.deliver()
        return {
            "state": state, "reason": reason, "batch_id": courier.place.batch_id, "batches_left": len(courier.due())
        }  # fmt: skip

    def _counts(self) -> dict[str, int]:
        """What was told before it ended, however it did."""
        return {name: getattr(self.courier, name) for name in COUNTED} if self.courier else {}


def is_well(document: dict[str, Any]) -> bool:
    """Whether no sink of an outcome needs attention."""
    return all(told["state"] in (OK, "behind", BUSY) for told in document["sinks"].values())
