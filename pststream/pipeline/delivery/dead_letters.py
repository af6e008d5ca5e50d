"""List the messages that sinks refused permanently, or send them again (`pststream dead-letters list|replay`)."""

import time
from typing import Any

from pststream.base.errors import PstError
from pststream.base.progress import Progress, no_progress
from pststream.delivery.sinks.contract import Message, MessageBatch, Sink, SinkDown
from pststream.delivery.sinks.registry import open_sink
from pststream.delivery.sinks.retry import RetryPolicy
from pststream.pipeline.delivery.deliver import SinkOpener, select_sinks
from pststream.pipeline.delivery.sink_sender import deliver_batch, split_for_sink
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.deliveries import count_dead, dead_letters, mark_delivered
from pststream.state.home import Home


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
    letters: list[dict[str, Any]] = []
    for sink in select_sinks(settings, only):
        for rows in dead_letters(home, sink.name):
            letters += [
                {"at" if name == "written_at" else name: value for name, value in row.items() if name != "message"}
                for row in rows
            ]
            if len(letters) >= limit:
                return letters[:limit]
    return letters


def _deliver(home: Home, sink: Sink, retry: RetryPolicy, rows: list[dict[str, Any]]) -> int:
    """Deliver some dead letters; return how many the sink accepted."""
    row_of = {row["message_id"]: row for row in rows}
    messages = (
        Message(row["message_id"], row["kind"], row["subscription_id"], row["message"].encode("ascii")) for row in rows
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
