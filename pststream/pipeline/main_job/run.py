"""Run the main job once (`pststream run`): ingest new files of a landing folder or bucket, match, deliver, answer.

The job runs unattended, so a file that cannot be read is quarantined and the other files are ingested.
"""

from pathlib import Path
from typing import Any

from pststream.base.errors import QuestionsBusy, RetryableError, RunnerBusy, UsageError
from pststream.base.progress import LogMessage, Progress, no_progress, with_fields
from pststream.input.input_files import files_below, has_format
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.delivery.deliver import deliver
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.pipeline.ingest.judge_landed import load_landed_suites
from pststream.pipeline.main_job.landing_scanner import KINDS
from pststream.pipeline.questions.answer_landed import answer_landed_questions
from pststream.pipeline.questions.question_ledger import NOTHING_ANSWERED
from pststream.settings import Settings
from pststream.state.home import RUNNER, Home
from pststream.storage.registry import local_path


def run(
    home: Home,
    settings: Settings,
    landing: str,
    options: ReaderOptions,
    max_objects: int | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ingest `landing/requests` and `landing/objects`, match what is pending, deliver to the sinks, and answer
    `landing/questions`.

    `landing`: a folder, or an address in a bucket, whose questions are not read. Returns {"ingest": {"requests": …,
    "objects": …}, "match": …, "deliver": …, "questions": …}. These are no errors: a missing or empty folder of a kind,
    a sink that is down, and another process that answers files of questions (new files then wait for the next run).
    Raises RunnerBusy while another runner, or a watcher, uses the home; SuiteError before any work if a suite cannot be
    used; RetryableError at the end if the files of a kind could not be read at the moment, or questions could not be
    answered.
    """
    check_landing(landing)
    load_landed_suites(home, KINDS)
    fetched = local_path(landing) is None
    ingested = {}
    with home.locked(RUNNER, RunnerBusy):
        failures = []
        for kind in KINDS:
            folder = f"{landing.rstrip('/')}/{kind}"
            format = options.format if kind == "objects" else None
            if fetched or any(has_format(path, format) for path in files_below(folder)):
                try:
                    ingested[kind] = ingest_landed(home, settings, kind, [folder], options, progress)
                except RetryableError as error:  # the other kind, the batches and the sinks go on
                    failures.append(error)
        matched = match(home, settings, max_objects=max_objects, progress=progress)
        delivered = deliver(home, settings, progress=progress)
        answered = NOTHING_ANSWERED
        if not fetched:
            try:
                answered = answer_landed_questions(home, settings, landing, progress=progress)
            except QuestionsBusy as error:
                progress(LogMessage(f"questions wait: {error.holder}"))
            except RetryableError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return {"ingest": ingested, "match": matched, "deliver": delivered, "questions": answered}


def check_landing(landing: str) -> None:
    """Raise UsageError unless `landing` is a folder or an address in a bucket."""
    if local_path(landing) is not None and not Path(landing).is_dir():
        raise UsageError(f"{landing} is not a folder", "put files into its folders objects/, requests/, questions/")


def ingest_landed(
    home: Home,
    settings: Settings,
    kind: str,
    paths: list[str],
    options: ReaderOptions,
    progress: Progress,
    folder: str | None = None,
) -> dict[str, Any]:
    """Ingest landed files, of `folder` if given; the options of columns apply to objects only."""
    reading = options if kind == "objects" else ReaderOptions(timezone=options.timezone)
    log = with_fields(progress, step="ingest")
    return ingest(home, settings, kind, paths, reading, log, True, folder)
