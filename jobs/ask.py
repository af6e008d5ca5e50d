"""Answer one question about stored objects as a job, and write a page about it. Run it with plain Python.

    python jobs/ask.py [--result FILE] [--home DIR] --question JSON [--page FILE.html] [--form]

The question is a JSON object of texts by field, as the options of `pststream ask` take them. With --form the page has
the form of the question, for a server that answers it; the process then takes the memory of the setting
`read_memory_bytes` at most, without mapped files.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs import entry
from pststream.atomic_files import write_atomically
from pststream.pipeline.ingest.isolated_reader import LOOK_SECONDS, used_bytes
from pststream.questions.answer_text import answer_lines
from pststream.questions.answered_question import answer_for_page
from pststream.questions.typed_question import record_of_texts
from pststream.reports.pages.question_page import render_answer
from pststream.settings import load_settings
from pststream.state.home import Home

NO_MEMORY = (
    "the question needs more memory than read_memory_bytes; ask about a smaller region or window, or use the command"
    " pststream ask"
)

LOGGED_ROWS = 20
"""Rows of an answer that are written to the log."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--result", help="file for the outcome, JSON, also s3://…")
    parser.add_argument(
        "--home", default=os.environ.get("PSTSTREAM_HOME", "./pststream-home"), help="home of the tables"
    )
    parser.add_argument("--question", required=True, help="the fields of the question, JSON")
    parser.add_argument("--page", help="write the answer to this file, HTML")
    parser.add_argument("--form", action="store_true", help="the page has the form of the question")
    own = parser.parse_args(entry.drop_empty(sys.argv[1:] if arguments is None else arguments))
    return entry.report(own.result, entry.call("ask", lambda: _ask(own)))


def _ask(own: argparse.Namespace) -> dict[str, Any]:
    """Answer the question, write its page, log the first rows; return the counts."""
    home = Home(own.home).check()
    settings = load_settings(home.path)
    if own.form:
        end_beyond(settings.read_memory_bytes, own.result)
    texts = {name: str(text) for name, text in json.loads(own.question).items()}
    record = record_of_texts(texts, lambda field: field)
    answered = answer_for_page(home, settings, record)
    if own.page:
        write_atomically(Path(own.page), render_answer(home.path, texts, answered, own.form).encode())
    if not own.form:  # the log of a server is not for its answers
        lines = answer_lines([vars(row) for row in answered.rows[:LOGGED_ROWS]])
        sys.stderr.write("\n".join([*lines, ""]))
    return {"kind": answered.kind, "rows": len(answered.rows), "more": answered.more, "seconds": answered.seconds}


def end_beyond(limit: int, result: str | None) -> None:
    """End this process, with an error as its outcome, as soon as it has more bytes of memory for itself."""

    def watch() -> None:
        while used_bytes(os.getpid()) <= limit:
            time.sleep(LOOK_SECONDS)
        outcome = {"command": "ask", "exit_code": entry.FAILED, "error": NO_MEMORY, "kind": "MemoryError"}
        entry.report(result, {**outcome, "result": None})
        os._exit(entry.FAILED)

    threading.Thread(target=watch, daemon=True, name="memory").start()


if __name__ == "__main__":
    sys.exit(main())
