"""Commands that tell sinks."""

from typing import Any

from pststream.cli.command import DONE, FAILED, Answer, Context, refuse
from pststream.escape_text import escape_controls

LETTERS = 100
"""Dead letters that are listed unless told otherwise."""


def deliver(context: Context, arguments: Any) -> Answer:
    """Tell the sinks what batches have found; 1 if one of them needs attention."""
    from pststream.pipeline.delivery.deliver import deliver as tell
    from pststream.pipeline.delivery.deliver import is_well

    document = tell(context.home, context.settings, arguments.sink, context.say)
    return Answer(document, delivered(document), DONE if is_well(document) else FAILED)


def delivered(document: dict[str, Any]) -> str:
    """A line for each sink."""
    if not document["sinks"]:
        return "no sink is set up: see [sinks.<name>] in pststream.toml"
    lines = []
    for name, told in document["sinks"].items():
        line = f"{name} ({told['kind']}): {told['state']}, {told['delivered']} delivered, {told['refused']} refused"
        left = f", {told['batches_left']} batches left" if told["batches_left"] else ""
        reason = f"\n  {told['reason']}" if told["reason"] else ""
        lines.append(line + left + reason)
    return "\n".join(lines)


def dead_letters(context: Context, arguments: Any) -> Answer:
    """List the dead letters, or deliver them again."""
    return (_replay if arguments.what == "replay" else _list)(context, arguments)


def _list(context: Context, arguments: Any) -> Answer:
    from pststream.pipeline.delivery.dead_letters import list_letters

    rows = list_letters(context.home, context.settings, arguments.sink, arguments.limit or LETTERS)
    lines = [
        f"{row['sink']}  {row['message_id']}  batch {row['batch_id']}  {row['kind']} for {row['subscription_id']}:"
        f" {row['reason']}"
        for row in rows
    ]
    return Answer({"dead_letters": rows}, "\n".join(map(escape_controls, lines)) or "no dead letters")


def _replay(context: Context, arguments: Any) -> Answer:
    from pststream.pipeline.delivery.dead_letters import replay_letters

    refuse("dead-letters replay", {"--limit": arguments.limit})
    document = replay_letters(context.home, context.settings, arguments.sink, context.say)
    lines = []
    for name, told in document["sinks"].items():
        reason = f" ({told['reason']})" if told["reason"] else ""
        lines.append(f"{name}: {told['delivered']} delivered, {told['dead']} still dead{reason}")
    left = any(told["dead"] for told in document["sinks"].values())
    return Answer(document, "\n".join(lines) or "no sink is set up", FAILED if left else DONE)
