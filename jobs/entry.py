"""What every job does: run a command of `pststream`, and leave its outcome in a file for the DAG that submitted it.

spark-submit tells its caller no more than an exit code, and Airflow's operator not even that. The result file says
which command ran, how it ended, why, and what it counted:

    {"command": "match", "exit_code": 0, "error": null, "result": {"batches": [...]}}

Where it failed, `kind` names the error of pststream.errors, if it is one.
"""

import argparse
import contextlib
import io
import json
import os
import re
import sys
import traceback
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from jobs.lifeline import end_with_submitter

DONE, FAILED, DONE_WITH_REJECTS = 0, 1, 3
NOT_GIVEN = re.compile(r"(--[a-z][a-z-]*=)?")
ERROR_LINES = 20


def main(command: str, usage: str | None, arguments: Sequence[str] | None = None) -> int:
    """The whole of a job that is one command: take `--result` off, pass everything else on; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=usage, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", type=Path, help="file for the outcome, JSON")
    own, rest = parser.parse_known_args(given(sys.argv[1:] if arguments is None else arguments))
    return report(own.result, run(command, rest))


def given(arguments: Sequence[str]) -> list[str]:
    """Without `--option=` and empty words: so a DAG's template says that a field of its form was left empty."""
    return [argument for argument in arguments if not NOT_GIVEN.fullmatch(argument)]


def run(command: str, arguments: Sequence[str], quiet: bool = False) -> dict[str, Any]:
    """Run `pststream COMMAND --json ARGUMENTS…`; its outcome as the result file holds it. Raises nothing.

    quiet: keep what the command says on standard error out of the job's log.
    """
    end_with_submitter()
    said, errors = io.StringIO(), Tee(None if quiet else sys.stderr)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        exit_code = _exit_code([command, "--json", *arguments])
    document = _document(said.getvalue())
    outcome = {"command": command, "exit_code": exit_code, "error": None, "result": document}
    if exit_code in (DONE, DONE_WITH_REJECTS):
        return outcome
    refused = isinstance(document, dict) and "error" in document
    error = document["error"] if refused else errors.tail()
    kind = document.get("kind") if refused else None
    document = None if refused else document
    outcome |= {"kind": kind}
    return outcome | {"error": error or f"pststream {command} ended with {exit_code}", "result": document}


def report(path: Path | None, outcome: dict[str, Any]) -> int:
    """Print the outcome, leave it in `path` whole or not at all, and return its exit code."""
    text = json.dumps(outcome, indent=1)
    sys.stdout.write(text + "\n")
    if path is not None:
        part = path.with_name(path.name + ".part")
        part.write_text(text, "utf-8")
        os.replace(part, path)
    return int(outcome["exit_code"])


class Tee(io.TextIOBase):
    """Passes a stream on, if there is one, and remembers its last lines."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lines: deque[str] = deque([""], maxlen=ERROR_LINES + 1)

    def write(self, text: str) -> int:
        """Write to the stream behind, and remember."""
        first, *others = text.split("\n")
        self._lines[-1] += first
        self._lines.extend(others)
        return self._stream.write(text) if self._stream else len(text)

    def flush(self) -> None:
        """Flush the stream behind."""
        if self._stream:
            self._stream.flush()

    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self._lines).strip()


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
