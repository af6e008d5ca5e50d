"""Answer a question of the pages in a process of its own, which ends after some seconds whatever it is asked."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pststream.airflow.runners.job_outcome import REFUSED
from pststream.airflow.runners.job_process import JobProcess, environment
from pststream.base.mask_urls import mask_urls

SECONDS = 30.0
"""How long a question may take; then its process is killed."""


class QuestionOutcome(NamedTuple):
    """The page with the answer as HTML, or the reason why there is none; `refused`: the question is not valid."""

    page: str
    problem: str
    refused: bool


def ask_in_process(home: str, fields: Mapping[str, str]) -> QuestionOutcome:
    """Answer a question with these texts by field."""
    with tempfile.TemporaryDirectory(prefix="pststream-") as folder:
        page = Path(folder) / "answer.html"
        arguments = [f"--home={home}", f"--question={json.dumps(dict(fields))}", f"--page={page}", "--form"]
        outcome, _ = JobProcess("ask", environment(), SECONDS).run(arguments, Path(folder) / "result.json")
        if outcome is not None and outcome["error"] is None:
            return QuestionOutcome(page.read_text("utf-8"), "", False)
    if outcome is None:
        problem = (
            f"The question took longer than {SECONDS:g} s, or its process was killed. Ask about a smaller region or"
            " window, or use the command pststream ask. The first question after large files were ingested also"
            " builds their segments: ask again."
        )
        return QuestionOutcome("", problem, False)
    refused = outcome["exit_code"] == REFUSED
    problem = outcome["error"].splitlines()[0] if refused else mask_urls(outcome["error"].splitlines()[-1])
    return QuestionOutcome("", problem, refused)
