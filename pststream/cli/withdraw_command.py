"""Run `withdraw`: read the selection from the arguments, and describe what was withdrawn."""

from pathlib import Path
from typing import Any

from pststream import names
from pststream.cli.command import CommandContext, CommandResult
from pststream.cli.writing_commands import lines_of
from pststream.errors import UsageError
from pststream.escape_text import escape_controls
from pststream.format_values import counted


def withdraw_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Withdraw the objects that meet all conditions."""
    from pststream.pipeline.upkeep.selected_objects import Selection
    from pststream.pipeline.upkeep.withdraw import withdraw

    selection = Selection(
        (*arguments.object_id, *lines_of(arguments.object_ids)),
        tuple(path if names.storage_prefix(path) else str(Path(path).absolute()) for path in arguments.file),
        _micros(context, "--from", arguments.since, names.NO_TIME),
        _micros(context, "--before", arguments.until, names.NEVER_US),
    )
    if not selection:
        raise UsageError("withdraw: no objects are given", "give --object-id, --file, --from or --before")
    document = withdraw(context.home, context.settings, selection, dry_run=arguments.dry_run, progress=context.progress)
    return CommandResult(document, _describe(document))


def _micros(context: CommandContext, option: str, text: str | None, default: int) -> int:
    """Return a time of the arguments in microseconds."""
    from pststream.quality.parse_times import parse_time

    if text is None:
        return default
    time = parse_time(text, context.settings.timezone)
    if time is None:
        raise UsageError(f"{option} {text}: not a time", "ISO 8601, such as 2026-01-01T00:00:00Z")
    return time


def _describe(document: dict[str, Any]) -> str:
    """Describe a withdrawal: the objects, the watermark, the rejects that they caused, and the next steps."""
    if not document["objects"]:
        return "no objects meet the conditions, or all of them are withdrawn already"
    done = "would withdraw" if document["dry_run"] else "withdrew"
    lines = [
        f"{done} {counted(document['objects'], 'object')}; watermark {document['watermark_before']} ->"
        f" {document['watermark_after'] or '-'}"
    ]
    if document["matched_objects"] and not document["dry_run"]:
        lines.append("their matches are retracted by the next: pststream match")
    rejects = document["rejects"]
    for reason in ("late", "duplicate"):
        if rows := rejects[reason]["rows"]:
            lines.append(f"{counted(rows, 'row')} rejected as {reason} because of them")
            lines.append(f"  ingest these again with: pststream ingest objects --retry-rejects {reason}")
    lines += [escape_controls(f"  {file['path']}: {counted(file['rows'], 'row')}") for file in rejects["files"]]
    return "\n".join(lines)
