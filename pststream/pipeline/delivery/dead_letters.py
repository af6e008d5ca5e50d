"""Dead letters: listed, and delivered again by command."""

import time
from typing import Any

from pststream.delivery.contract import Batch, Message, Sink, SinkDown
from pststream.delivery.registry import open_sink
from pststream.delivery.retry import Patience
from pststream.errors import PstError
from pststream.pipeline.delivery.courier import portions
from pststream.pipeline.delivery.deliver import Opener, sinks_of
from pststream.progress import Progress, no_progress
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.deliveries import count_dead, dead_letters, raise_letters
from pststream.state.home import Home


def replay_letters(
    home: Home,
    settings: Settings,
    only: str | None = None,
    progress: Progress = no_progress,
    opener: Opener = open_sink,
) -> dict[str, Any]:
    """Deliver the dead letters of every sink, or of one, again: with the ids and the bytes that were refused.

    Returns {"sinks": {name: {"delivered", "dead", "reason"}}}, `dead` being those still dead. Raises UsageError where
    `only` names no sink.
    """
    home.check()
    told: dict[str, Any] = {}
    for settings_of_sink in sinks_of(settings, only):
        name, delivered, reason = settings_of_sink.name, 0, None
        patience = Patience(settings_of_sink.tries, time.monotonic() + settings.delivery_seconds)
        try:
            with home.locked(f"deliver-{name}"):
                sink = opener(settings_of_sink)
                for rows in dead_letters(home, name):
                    delivered += _deliver(home, sink, patience, rows)
        except (SinkDown, PstError) as error:
            reason = str(error)
        told[name] = {"delivered": delivered, "dead": count_dead(home, name), "reason": reason}
        progress(f"sink {name}: {delivered} dead letters delivered, {told[name]['dead']} left")
    return {"sinks": told}


def list_letters(home: Home, settings: Settings, only: str | None, limit: int) -> list[dict[str, Any]]:
    """At most `limit` of the messages that are still dead, of every sink or of one, without the messages themselves."""
    home.check()
    rows: list[dict[str, Any]] = []
    for sink in sinks_of(settings, only):
        for found in dead_letters(home, sink.name):
            rows += [{name: value for name, value in row.items() if name != "message"} for row in found]
            if len(rows) >= limit:
                return rows[:limit]
    return rows


def _deliver(home: Home, sink: Sink, patience: Patience, rows: list[dict[str, Any]]) -> int:
    """Deliver some dead letters; how many were taken."""
    row_of = {row["message_id"]: row for row in rows}
    messages = (
        Message(row["message_id"], row["kind"], row["subscription_id"], row["message"].encode("ascii")) for row in rows
    )
    taken = 0
    for part in portions(messages, sink):
        refused = {refusal.message.id for refusal in patience.deliver(sink, Batch(f"replay-{part[0].id}", part))}
        crash_point("deliver.replayed")
        raised = [row_of[message.id] for message in part if message.id not in refused]
        raise_letters(home, raised)
        taken += len(raised)
    return taken
