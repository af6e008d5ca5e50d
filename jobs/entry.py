"""Run one `pststream` command as a job, and write its outcome to a result file for the DAG that submitted it.

spark-submit returns only an exit code to its caller, and Airflow's operator not even that. The result file contains
the command, its exit code, its error and its JSON document:

    {"command": "match", "exit_code": 0, "error": null, "result": {"batches": [...]}}

If the command failed, `kind` is the class name of its error, or null if the command printed no JSON.
"""

import argparse
import contextlib
import datetime as dt
import io
import json
import os
import re
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from jobs.submitter_watch import end_with_submitter
from pststream.errors import PstError
from pststream.state.home import Home
from pststream.storage.registry import files_at

DONE, FAILED, DONE_WITH_REJECTS = 0, 1, 3
WORK_WAITS = "WorkWaits"
"""The kind of error of a job that was to run only without work; `dags` names it too."""

EMPTY_ARGUMENT = re.compile(r"(--[a-z][a-z-]*=)?")
ERROR_LINES = 20


def main(command: str, usage: str | None, arguments: Sequence[str] | None = None) -> int:
    """Run a job of one command: read `--result`, pass all other arguments to the command; return the exit code."""
    parser = argparse.ArgumentParser(
        description=usage, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", help="file for the outcome, JSON, also s3://…")
    own, rest = parser.parse_known_args(drop_empty(sys.argv[1:] if arguments is None else arguments))
    return report(own.result, run(command, rest))


def landing_parser(usage: str | None) -> argparse.ArgumentParser:
    """Return the parser of a job that works on a landing folder."""
    parser = argparse.ArgumentParser(
        description=usage, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", help="file for the outcome, JSON, also s3://…")
    parser.add_argument(
        "--home", default=os.environ.get("PSTSTREAM_HOME", "./pststream-home"), help="home of the tables"
    )
    parser.add_argument("--landing", default=os.environ.get("PSTSTREAM_LANDING"), help="landing folder")
    parser.add_argument("--since", type=dt.datetime.fromisoformat, help="when the first try started")
    parser.add_argument("--only-if-idle", action="store_true", help="change nothing if there is work")
    return parser


def landing_of(own: argparse.Namespace) -> str:
    """Return the landing folder of parsed arguments; without one `landing` in the home."""
    return own.landing or f"{Home(own.home).path}/landing"


def drop_empty(arguments: Sequence[str]) -> list[str]:
    """Drop `--option=` and empty words, which a DAG's template yields for empty fields of its form."""
    return [argument for argument in arguments if not EMPTY_ARGUMENT.fullmatch(argument)]


def run(command: str, arguments: Sequence[str], quiet: bool = False) -> dict[str, Any]:
    """Run `pststream COMMAND --json --verbose ARGUMENTS…`; return the outcome for the result file. Raises nothing.

    The log of a task contains the log of Spark.

    quiet: keep the command's standard error out of the job's log.
    """
    end_with_submitter()
    output, errors = io.StringIO(), Tee(None if quiet else sys.stderr)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        exit_code = _exit_code([command, "--json", "--verbose", *arguments])
    document = _document(output.getvalue())
    outcome = {"command": command, "exit_code": exit_code, "error": None, "result": document}
    if exit_code in (DONE, DONE_WITH_REJECTS):
        return outcome
    refused = isinstance(document, dict) and "error" in document
    error = document["error"] if refused else errors.tail()
    kind = document.get("kind") if refused else None
    document = None if refused else document
    outcome |= {"kind": kind}
    return outcome | {"error": error or f"pststream {command} ended with {exit_code}", "result": document}


def call(command: str, function: Callable[[], Any]) -> dict[str, Any]:
    """Call a function for a command; return the outcome for the result file, with what the function returned."""
    end_with_submitter()
    outcome = {"command": command, "exit_code": DONE, "error": None}
    try:
        return outcome | {"result": function()}
    except PstError as error:
        code, kind, text = error.exit_code, type(error).__name__, str(error)
    except Exception as error:
        traceback.print_exc()
        code, kind, text = FAILED, type(error).__name__, f"{type(error).__name__}: {error}"
    return outcome | {"exit_code": code, "kind": kind, "error": text, "result": None}


def report(address: str | None, outcome: dict[str, Any]) -> int:
    """Print the outcome, write it to a file atomically, and return its exit code.

    address: a local path, or `s3://bucket/name`
    """
    text = json.dumps(outcome, indent=1)
    sys.stdout.write(text + "\n")
    if address is not None:
        folder, slash, name = address.rpartition("/")
        files_at(folder or slash or ".").write(name, text.encode())
    return int(outcome["exit_code"])


class Tee(io.TextIOBase):
    """Writes to another stream, if there is one, and keeps the last lines."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lines: deque[str] = deque([""], maxlen=ERROR_LINES + 1)

    def write(self, text: str) -> int:
        """Write to the other stream, and keep the text."""
        first, *others = text.split("\n")
        self._lines[-1] += first
        self._lines.extend(others)
        return self._stream.write(text) if self._stream else len(text)

    def flush(self) -> None:
        """Flush the other stream."""
        if self._stream:
            self._stream.flush()

    def tail(self) -> str:
        """Return the last lines; of a line that is a JSON object of the log, the message."""
        return "\n".join(map(_message, self._lines)).strip()


def _message(line: str) -> str:
    fields = _document(line) if line.startswith("{") else None
    return str(fields.get("message", line)) if isinstance(fields, dict) else line


def _exit_code(arguments: list[str]) -> int:
    try:
        from pststream.cli.main import main as pststream

        return pststream(arguments)
    except Exception:
        traceback.print_exc()
        return FAILED


def _document(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except ValueError:
        return None
