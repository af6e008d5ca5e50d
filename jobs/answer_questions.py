"""Answer the new files of questions of a landing folder as a job. Run it with plain Python, or submit it.

    python jobs/answer_questions.py [--result FILE] [--home DIR] [--landing DIR] [--since TIME]
                                    [--only-if-idle]

The landing folder contains `questions/`, and gets `answers/`. Default: `PSTSTREAM_LANDING`, or else `landing` in the
home. The result is {"files", "questions", "rejected", "rows", "seconds": {step: s}, "answers": [paths], "passed_over":
[paths of files that could not be read now], "table_version": the version of the table `question_answers` afterwards,
"home"}. `--since` is for a retry: the counts include the files that earlier tries answered from this time on (ISO
8601). With `--only-if-idle` the job changes nothing if a file waits, and fails with the kind `WorkWaits`; a DAG then
submits it to its cluster.
"""

import datetime as dt
import sys
from collections.abc import Sequence
from typing import Any

from jobs import entry
from pststream import names
from pststream.cli.stderr_log import StderrLog
from pststream.delta_tables import table_version
from pststream.errors import UsageError
from pststream.pipeline.main_job.run import check_landing
from pststream.pipeline.questions.answer_landed import answer_landed_questions
from pststream.pipeline.questions.find_question_files import questions_wait
from pststream.pipeline.questions.question_ledger import add_answered_since
from pststream.settings import load_settings
from pststream.state.home import Home
from pststream.storage.registry import local_path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit code."""
    words = entry.drop_empty(sys.argv[1:] if arguments is None else arguments)
    own = entry.landing_parser(__doc__).parse_args(words)
    return entry.report(own.result, _run(own.home, entry.landing_of(own), own.since, own.only_if_idle))


def _run(home: str, landing: str, since: dt.datetime | None, only_if_idle: bool) -> dict[str, Any]:
    """Answer the files; with `only_if_idle`, only if there are none. Return the outcome."""
    if only_if_idle:
        asked = entry.call("answer_questions", lambda: _wait(home, landing))
        if asked["error"] is not None:
            return asked
        if asked["result"]:
            refused = {"exit_code": entry.FAILED, "kind": entry.WORK_WAITS, "error": "questions wait"}
            return {**asked, **refused, "result": None}
    return entry.call("answer_questions", lambda: _answer(home, landing, since))


def _wait(address: str, landing: str) -> bool:
    home = _check(address, landing)
    with home.locked():
        return questions_wait(home, landing)


def _check(address: str, landing: str) -> Home:
    """Return the home; raise UsageError unless it and the landing folder exist."""
    if local_path(landing) is None:
        raise UsageError(f"{landing}: questions in a bucket are not read", "give a folder")
    check_landing(landing)
    return Home(address).check()


def _answer(address: str, landing: str, since: dt.datetime | None) -> dict[str, Any]:
    home = _check(address, landing)
    log = StderrLog("answer_questions", quiet=False).log_progress
    summary = answer_landed_questions(home, load_settings(home.path), landing, progress=log)
    summary = add_answered_since(home, since, summary)
    return {**summary, "table_version": table_version(home.table(names.QUESTION_ANSWERS)), "home": home.path}


if __name__ == "__main__":
    sys.exit(main())
