"""Answer one question about stored objects as a job, and write a page with the answer."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pststream.base.atomic_files import write_atomically
from pststream.base.progress import Progress
from pststream.pipeline.ingest.isolated_reader import LOOK_SECONDS, used_bytes
from pststream.reports.pages.question_page import render_answer
from pststream.search.answer_rows import answer_lines
from pststream.search.ask import answer_for_page, record_of_texts
from pststream.settings import Settings
from pststream.state.home import Home

NO_MEMORY = (
    "the question needs more memory than read_memory_bytes; ask about a smaller region or window, or use the command"
    " pststream ask"
)

LOGGED_ROWS = 20
"""Rows of an answer that are written to the log."""


def ask_for_page(
    home: Home,
    settings: Settings,
    *,
    question: Mapping[str, Any],
    page: Path | None,
    form: bool,
    progress: Progress,
    abort: Callable[[Exception], object],
) -> dict[str, Any]:
    """Answer the question, write its page, log the first rows; return the counts.

    question  texts by field, as the options of `pststream ask` take them
    form      the page has the form of the question, for a server that answers it; the process then takes the memory of
              the setting `read_memory_bytes` at most, without mapped files
    """
    home.check()
    if form:
        abort_beyond(settings.read_memory_bytes, abort)
    texts = {name: str(text) for name, text in question.items()}
    answered = answer_for_page(home, settings, record_of_texts(texts, lambda field: field))
    if page is not None:
        write_atomically(page, render_answer(home.path, texts, answered, form).encode())
    if not form:  # the log of a server is not for its answers
        lines = answer_lines([vars(row) for row in answered.rows[:LOGGED_ROWS]])
        sys.stderr.write("\n".join([*lines, ""]))
    return {"kind": answered.kind, "rows": len(answered.rows), "more": answered.more, "seconds": answered.seconds}


def abort_beyond(limit: int, abort: Callable[[Exception], object]) -> None:
    """End this process as soon as it has more bytes of memory for itself."""

    def watch() -> None:
        while used_bytes(os.getpid()) <= limit:
            time.sleep(LOOK_SECONDS)
        abort(MemoryError(NO_MEMORY))

    threading.Thread(target=watch, daemon=True, name="memory").start()
