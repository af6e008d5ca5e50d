"""Run the jobs on a landing folder: ingest, match and answer what is new in it, or only answer its questions."""

import datetime as dt
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pststream.base import names
from pststream.base.errors import UsageError, WorkWaits
from pststream.base.progress import Progress
from pststream.pipeline.delivery.deliver import waiting_sinks
from pststream.pipeline.ingest.isolated_reader import LOOK_SECONDS, used_bytes
from pststream.pipeline.jobs.job import argument
from pststream.pipeline.main_job.run import has_work
from pststream.pipeline.questions.question_ledger import NOTHING_ANSWERED, add_answered_since, questions_wait
from pststream.pipeline.replan.measured_loads import check_balance
from pststream.search.answer_rows import answer_lines
from pststream.search.ask import answer_for_page, record_of_texts
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.storage.registry import file_at, local_path
from pststream.tables.delta_tables import table_version

LANDING = argument("--landing", help="landing folder (PSTSTREAM_LANDING; default: `landing` in the home)")
SINCE = argument("--since", type=dt.datetime.fromisoformat, help="when the first try started (ISO 8601)")
ONLY_IF_IDLE = argument("--only-if-idle", action="store_true", help="change nothing if there is work")


def run_landing(
    home: Home,
    settings: Settings,
    *,
    landing: str | None,
    since: dt.datetime | None,
    only_if_idle: bool,
    no_deliver: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Run the main job if there is work; return its document with what the DAG needs.

    since         the document includes what earlier tries ingested, matched and answered from this time on
    only_if_idle  raise WorkWaits, before any change, if there is work

    Further keys of the document: `table_version`, the version of the table `matches` afterwards; `balance`, what
    `check_balance` returns, or None if there was no batch; `waiting_sinks`, the sinks with work; `home`.
    """
    landing = _landing_of(home, landing)
    if not has_work(home, settings, landing):
        progress("nothing is new")
        document: dict[str, Any] = {
            "ingest": {}, "match": {"batches": [], "objects": 0, "matches": 0, "changes": 0}, "deliver": {"sinks": {}},
            "questions": NOTHING_ANSWERED,
        }  # fmt: skip
    elif only_if_idle:
        raise WorkWaits("there is work")
    else:
        document = _run(home, replace(settings, sinks=()) if no_deliver else settings, landing, progress)
    if since is not None:
        _add_earlier_tries(home, since, document)
    return document | {
        "questions": add_answered_since(home, since, document["questions"]),
        "table_version": table_version(home.table(names.MATCHES)),
        "balance": check_balance(home, settings) if document["match"]["batches"] else None,
        "waiting_sinks": waiting_sinks(home, settings),
        "home": home.path,
    }


def _landing_of(home: Home, landing: str | None) -> str:
    return landing or os.environ.get("PSTSTREAM_LANDING") or f"{home.path}/landing"


def _run(home: Home, settings: Settings, landing: str, progress: Progress) -> dict[str, Any]:
    from pststream.input.suite_files import default_suites
    from pststream.pipeline.ingest.ingest import options_of  # load the code that ingests and matches
    from pststream.pipeline.main_job.run import check_landing, run

    check_landing(landing)
    home.init(settings.answer_buckets, default_suites(), settings.home_group)
    return run(home, settings, landing, options_of(settings), progress=progress)


def _add_earlier_tries(home: Home, since: dt.datetime, document: dict[str, Any]) -> None:
    """Add what earlier tries of this run ingested and matched to the document."""
    from pststream.pipeline.main_job.run import summarize_since  # loads the code that matches

    earlier, own = summarize_since(home, since), document["match"]
    for kind, figures in earlier["ingest"].items():
        document["ingest"][kind] = document["ingest"].get(kind, {}) | figures
    own_ids = {batch["batch_id"] for batch in own["batches"]}  # clocks may differ, so these are compared by id
    own["batches"] = [batch for batch in earlier["batches"] if batch["batch_id"] not in own_ids] + own["batches"]
    own |= {name: sum(batch[name] for batch in own["batches"]) for name in ("objects", "matches")}


def is_unclean(document: dict[str, Any]) -> bool:
    """Whether a document of `run_landing` has rejected rows or quarantined files."""
    from pststream.pipeline.ingest.ingest import has_rejects  # loads the code that ingests

    return any(map(has_rejects, (*document["ingest"].values(), document["questions"])))


def answer_landing(
    home: Home,
    settings: Settings,
    *,
    landing: str | None,
    since: dt.datetime | None,
    only_if_idle: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Answer the new files of questions; return the counts, `table_version` (of `question_answers`) and `home`.

    Arguments as of `run_landing`.
    """
    from pststream.pipeline.main_job.run import check_landing  # loads the code that ingests and matches
    from pststream.pipeline.questions.answer_landed import answer_landed_questions

    landing = _landing_of(home, landing)
    if local_path(landing) is None:
        raise UsageError(f"{landing}: questions in a bucket are not read", "give a folder")
    check_landing(landing)
    home.check()
    if only_if_idle:
        with home.locked():
            if questions_wait(home, landing):
                raise WorkWaits("questions wait")
    summary = answer_landed_questions(home, settings, landing, progress=progress)
    summary = add_answered_since(home, since, summary)
    return {**summary, "table_version": table_version(home.table(names.QUESTION_ANSWERS)), "home": home.path}


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
    page: str | None,
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
        from pststream.reports.pages.question_page import render_answer  # here, since few jobs need templates

        files, name = file_at(page)
        files.write(name, render_answer(home.path, texts, answered, form).encode())
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
