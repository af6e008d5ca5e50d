"""Run `term-statistics`: count the objects that have each word, and put the counts in force."""

from typing import Any

from pststream.base.format_values import counted
from pststream.cli.command import CommandContext, CommandResult


def term_statistics_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Make a new version of the term statistics."""
    from pststream.pipeline.upkeep.term_statistics import make_term_statistics

    document = make_term_statistics(
        context.home, context.settings, dry_run=arguments.dry_run, progress=context.progress
    )
    state = "would be" if document["dry_run"] else "is in force"
    texts = f"{counted(document['objects'], 'object')} with {counted(document['terms'], 'term')}"
    return CommandResult(document, f"version {document['version']} {state}: {texts}")
