"""Do one `pststream run`: ingest, match, deliver and answer; find out if it has work; sum up what earlier tries did.

The job ingests new files of a landing folder or bucket, matches, delivers, and answers. It runs unattended, so a file
that cannot be read is quarantined and the other files are ingested.
"""

import datetime as dt
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import QuestionsBusy, RetryableError, RunnerBusy, UsageError
from pststream.base.progress import LogMessage, Progress, no_progress, with_fields
from pststream.base.texts import escape_controls
from pststream.engine.spark_session import check_jars
from pststream.input.input_files import files_below, has_format, unknown_below
from pststream.pipeline.batch.micro_batch import batch_summary, match
from pststream.pipeline.delivery.deliver import deliver
from pststream.pipeline.ingest.fetch_objects import ObjectSource, is_fetched
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest, options_of, stored_options
from pststream.pipeline.ingest.known_files import KnownFiles
from pststream.pipeline.ingest.landing_gate import load_landed_suites
from pststream.pipeline.ingest.local_files import (
    UNCACHED_BYTES,
    folder_of_sender,
    hash_files,
    read_stamps,
    select_readable,
)
from pststream.pipeline.main_job.landing_scanner import KINDS
from pststream.pipeline.questions.answer_landed import answer_landed_questions
from pststream.pipeline.questions.question_ledger import NOTHING_ANSWERED, questions_wait
from pststream.pipeline.upkeep.pairs_table import update_pairs
from pststream.settings import Settings
from pststream.state import fetched_files
from pststream.state.home import RUNNER, Home
from pststream.storage.registry import local_path
from pststream.tables.delta_tables import latest_dataset
from pststream.tables.ledgers import FileRow, Ledger, read_files, read_latest
from pststream.tables.owners import owner_of_landed

MAX_LISTED = 100
"""Files of unknown endings that are named."""


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
    "objects": …}, "match": …, "deliver": …, "questions": …}, "pairs" if the setting `pairs_table` is `run`, and
    "unknown_endings": [paths], MAX_LISTED at most, if a folder has files that are not read for that. These are no
    errors: a missing or empty folder of a kind, a sink that is down, and another process that answers files of
    questions (new files then wait for the next run).
    Raises RunnerBusy while another runner, or a watcher, uses the home; SuiteError before any work if a suite cannot be
    used; RetryableError at the end if the files of a kind could not be read at the moment, or questions could not be
    answered.
    """
    check_landing(landing)
    load_landed_suites(home, KINDS)
    if settings.pairs_table == names.AFTER_RUNS:
        check_jars(settings, home)
    fetched = local_path(landing) is None
    ingested: dict[str, Any] = {}
    unknown = [] if fetched else [path for kind in KINDS for path in unknown_below(f"{landing.rstrip('/')}/{kind}")]
    for path in unknown[:MAX_LISTED]:
        progress(escape_controls(f"{path}: not read: its ending is that of no known format"))
    with home.locked(RUNNER, RunnerBusy):
        failures = []
        for kind in KINDS:
            folder = f"{landing.rstrip('/')}/{kind}"
            format = options.format if kind == "objects" else None
            if fetched or any(has_format(path, format) for path in files_below(folder)):
                try:
                    ingested[kind] = ingest_landed(home, settings, kind, [folder], options, progress, folder)
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
        is_wanted = settings.pairs_table == names.AFTER_RUNS
        gold = {"pairs": update_pairs(home, settings, progress=progress)} if is_wanted else {}
        more = gold | ({"unknown_endings": unknown[:MAX_LISTED]} if unknown else {})
        return more | {"ingest": ingested, "match": matched, "deliver": delivered, "questions": answered}


def check_landing(landing: str) -> None:
    """Raise UsageError unless `landing` is a folder or an address in a bucket."""
    if local_path(landing) is not None and not Path(landing).is_dir():
        raise UsageError(f"{landing} is not a folder", "put files into its folders objects/, requests/, questions/")


def ingest_landed(
    home: Home, settings: Settings, kind: str, paths: list[str], options: ReaderOptions, progress: Progress, folder: str
) -> dict[str, Any]:
    """Ingest landed files of `folder`, that of their kind; the options of columns apply to objects only."""
    reading = options if kind == "objects" else ReaderOptions(timezone=options.timezone, time_unit=options.time_unit)
    log = with_fields(progress, step="ingest")
    return ingest(home, settings, kind, paths, reading, log, True, folder)


def has_work(home: Home, settings: Settings, landing: str) -> bool:
    """Whether `run` would do or report anything but files of unknown endings: ingest a file, name one that it cannot
    read or that is pending, match
    pending rows, answer a file of questions, finish an interrupted step, create the home, or refuse the landing folder.
    If only reading a large file can answer this, the result is true.

    A job asks before it loads the code that ingests and matches, and a DAG before it submits to a cluster. Raises
    RunnerBusy as `run` does.
    """
    fetched = is_fetched(landing)
    if not home.files.exists(names.HOME_MARK) or not (fetched or Path(landing).is_dir()):
        return True
    home.check()
    with home.locked(RUNNER, RunnerBusy), home.locked():
        ledger = Ledger(home)
        if ledger.unfinished_ingest() or ledger.unfinished_batch() or not ledger.pending(1).empty:
            return True
        folders = ((kind, f"{landing.rstrip('/')}/{kind}") for kind in KINDS)
        if fetched:
            hashes = fetched_files.read_hash_cache(home)
            for kind, folder in folders:
                known = KnownFiles(home, kind, {sha256 for _, _, sha256 in hashes.values()})
                find = partial(_find_known, settings, folder, known)
                source = ObjectSource(home, folder, None, find, hashes, True, settings.max_fetch_bytes, False)
                if source.ready or source.pending(settings.pending_seconds):
                    return True
            return False
        if any(_has_new_files(home, settings, kind, folder) for kind, folder in folders):
            return True
        return questions_wait(home, landing)


def _find_known(settings: Settings, folder: str, known: KnownFiles, path: str, sha256: str) -> str | None:
    owner = owner_of_landed(path, folder)
    return known.find(path, sha256, stored_options(options_of(settings), settings, True, owner))


def _has_new_files(home: Home, settings: Settings, kind: str, folder: str) -> bool:
    """Whether a local folder has a file that was not judged before; the home is locked."""
    paths = [path for path in files_below(Path(folder).absolute()) if has_format(path, None)]
    folders = {path: folder_of_sender(path, str(Path(folder).absolute())) for path in paths}
    if len(select_readable(paths, no_progress, folders)) < len(paths):
        return True
    stamps = read_stamps(paths)
    if sum(size for _, size in stamps.values()) > UNCACHED_BYTES:
        hashes = fetched_files.read_hash_cache(home)
        if any(path not in hashes or hashes[path][:2] != stamp for path, stamp in stamps.items()):
            return True
    offered = hash_files(home, stamps, tolerant=True, folders=folders)
    known, folder = KnownFiles(home, kind, [file.sha256 for file in offered]), str(Path(folder).absolute())
    return any(_find_known(settings, folder, known, file.path, file.sha256) is None for file in offered)


def summarize_since(home: Home, since: dt.datetime) -> dict[str, Any]:
    """Return the batches that were done, and the counts of the files that were ingested, at `since` or later.

    Returns {"ingest": {kind: {"files", "rows", "accepted", "rejected", "rejects_by_reason"}}, "batches": as `match`
    returns them}; a kind without such files is left out. A retried job needs this, as each try knows only its own work.
    """
    batches = read_latest(home, names.BATCHES, "batch_id", filter=pds.field("finished_at") >= since).to_pylist()
    done = [batch_summary(batch) for batch in batches if batch["status"] == "done"]
    done_since = (pds.field("started_at") >= since) & (pds.field("status") == "done")
    is_file = pds.field("withdrawal_id").is_null() & pds.field("statistics_version").is_null()
    files = read_files(home, done_since & is_file)
    by_kind = {kind: [file for file in files if file["kind"] == kind] for kind in KINDS}
    return {"ingest": {kind: _count(home, of_kind) for kind, of_kind in by_kind.items() if of_kind}, "batches": done}


def _count(home: Home, files: list[FileRow]) -> dict[str, Any]:
    numbers = sorted({file["ingest_id"] for file in files})
    mine = pds.field("ingest_id").isin(numbers) & (pds.field("kind") == files[0]["kind"])
    reasons = Counter[str]()
    for rejects in latest_dataset(home.table(names.REJECTS)).to_batches(columns=["reason"], filter=mine):
        reasons.update(rejects.column(0).to_pylist())
    sums = {name: sum(file[name] for file in files) for name in ("accepted", "rejected")}
    rows = {"rows": sums["accepted"] + sums["rejected"]}
    return {"files": len(files), **rows, **sums, "rejects_by_reason": dict(sorted(reasons.items()))}
