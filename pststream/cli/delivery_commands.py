"""Run the commands `deliver` and `dead-letters`, and return document, text and exit code of each."""

from typing import Any

from pststream.base.escape_text import escape_controls
from pststream.cli.command import DONE, FAILED, CommandContext, CommandResult, refuse_options
from pststream.cli.result_texts import describe_delivery, describe_replay

LISTED_LETTERS = 100
"""Dead letters that `list` shows by default."""


def deliver_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Deliver the matches of finished batches; exit code 1 if a sink needs attention."""
    from pststream.pipeline.delivery.deliver import deliver, is_well

    document = deliver(context.home, context.settings, arguments.sink, context.progress)
    return CommandResult(document, describe_delivery(document), DONE if is_well(document) else FAILED)


def dead_letters_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the dead letters, or deliver them again."""
    return (_replay if arguments.what == "replay" else _list)(context, arguments)


def _list(context: CommandContext, arguments: Any) -> CommandResult:
    from pststream.pipeline.delivery.dead_letters import list_letters

    rows = list_letters(context.home, context.settings, arguments.sink, arguments.limit or LISTED_LETTERS)
    lines = [
        f"{row['sink']}  {row['message_id']}  batch {row['batch_id']}  {row['kind']} for {row['subscription_id']}:"
        f" {row['reason']}"
        for row in rows
    ]
    return CommandResult({"dead_letters": rows}, "\n".join(map(escape_controls, lines)) or "no dead letters")


def _replay(context: CommandContext, arguments: Any) -> CommandResult:
    from pststream.pipeline.delivery.dead_letters import replay_letters

    refuse_options("dead-letters replay", {"--limit": arguments.limit})
    document = replay_letters(context.home, context.settings, arguments.sink, context.progress)
    left = any(outcome["dead"] for outcome in document["sinks"].values())
    return CommandResult(document, describe_replay(document), FAILED if left else DONE)
