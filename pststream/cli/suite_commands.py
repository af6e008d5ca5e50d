"""Run the commands on the suites of a home: list, add, remove, validate; return document, text and exit code."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pststream.base.errors import UsageError
from pststream.base.format_values import counted
from pststream.cli.command import CommandContext, CommandResult
from pststream.input.judged_rows import SUBJECTS
from pststream.input.run_suites import check_suite
from pststream.input.suite_files import ENDING, Suite, delete_suite, parse_suite, read_suites, write_suite


def suite_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the suites of the home, validate them or a file, add a file, or remove a suite."""
    context.home.check()
    if arguments.what == "remove":
        return _remove(context, arguments)
    if arguments.what == "add" or arguments.file is not None:
        return _take(context, arguments)
    subjects = SUBJECTS if arguments.subject is None else (arguments.subject,)
    suites = [suite for subject in subjects for suite in read_suites(context.home.files, context.home.path, subject)]
    if arguments.what == "validate":
        for suite in suites:
            check_suite(suite)
    valid = ", valid" if arguments.what == "validate" else ""
    lines = [f"{suite.label}: {counted(len(suite.expectations), 'expectation')}{valid}" for suite in suites]
    return CommandResult({"suites": [_describe(suite) for suite in suites]}, "\n".join(lines) or "no suites")


def _take(context: CommandContext, arguments: Any) -> CommandResult:
    """Check a file, and add it if that is asked for."""
    if arguments.subject is None or arguments.file is None:
        raise UsageError("suite add: give a folder and a file", "such as: pststream suite add landed_objects text.json")
    path = Path(arguments.file)
    if path.suffix != ENDING:
        raise UsageError(f"{path}: is not a {ENDING} file", "the file's name is the name of the suite")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", "give a file") from None
    suite = parse_suite(arguments.subject, path.stem, str(path), content)
    check_suite(suite)
    if arguments.what == "validate":
        return CommandResult({"suites": [_describe(suite)]}, f"{suite.label}: valid")
    file = write_suite(context.home.files, suite)
    added = replace(suite, path=f"{context.home.path}/{file}")
    return CommandResult({"suites": [_describe(added)]}, f"{suite.label}: added")


def _remove(context: CommandContext, arguments: Any) -> CommandResult:
    if arguments.subject is None or arguments.file is None:
        raise UsageError(
            "suite remove: give a folder and a name", "such as: pststream suite remove landed_objects text"
        )
    name = arguments.file.removesuffix(ENDING)
    delete_suite(context.home.files, arguments.subject, name)
    return CommandResult({"removed": f"{arguments.subject}/{name}"}, f"{arguments.subject}/{name}: removed")


def _describe(suite: Suite) -> dict[str, Any]:
    return {
        "subject": suite.subject,
        "name": suite.name,
        "path": suite.path,
        "expectations": [str(one) for one in suite.expectations],
    }
