"""The main job: what is new in a landing folder or bucket, ingested, matched and delivered.

Nobody stands by while it runs, so a file that cannot be read is held in quarantine, and the others are taken in.
"""

from functools import partial
from pathlib import Path
from typing import Any

from pststream import names
from pststream.errors import RetryableError, RunnerBusy, UsageError
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.delivery.deliver import deliver
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.pipeline.main_job.arrivals import KINDS
from pststream.progress import LogMessage, Progress, no_progress
from pststream.quality.input_files import files_below, has_format
from pststream.settings import Settings
from pststream.state.home import RUNNER, Home


def run(
    home: Home,
    settings: Settings,
    landing: str,
    options: ReaderOptions,
    max_objects: int | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ingest `landing/requests` and `landing/objects`, match what is pending, tell the sinks of it.

    `landing`: a folder, or an address in a bucket. Returns {"ingest": {"requests": …, "objects": …}, "match": …,
    "deliver": …}; a folder of one of the kinds that is absent or empty is no error, nor is a sink that is down. Raises
    RunnerBusy while another runner, or a watcher, is at work on the home; at the end, RetryableError for a kind
    that could not be read just now.
    """
    check_landing(landing)
    in_bucket = landing.startswith(names.BUCKETS)
    taken = {}
    with home.locked(RUNNER, RunnerBusy):
        failures = []
        for kind in KINDS:
            folder = f"{landing.rstrip('/')}/{kind}"
            format = options.format if kind == "objects" else None
            if in_bucket or any(has_format(path, format) for path in files_below(folder)):
                try:
                    taken[kind] = take_in(home, settings, kind, [folder], options, progress)
                except RetryableError as error:  # a store that gives none of one kind holds nothing else back
                    failures.append(error)
        matched = match(home, settings, max_objects=max_objects, progress=progress)
        told = deliver(home, settings, progress=progress)
        if failures:
            raise failures[0]
        return {"ingest": taken, "match": matched, "deliver": told}


def check_landing(landing: str) -> None:
    """Raise UsageError unless it is a folder or may be a place in a bucket."""
    if not landing.startswith(names.BUCKETS) and not Path(landing).is_dir():
        raise UsageError(f"{landing} is not a folder", "put files into its subfolders objects/ and requests/")


def take_in(
    home: Home, settings: Settings, kind: str, paths: list[str], options: ReaderOptions, progress: Progress
) -> dict[str, Any]:
    """Ingest what landed; the options of columns are those of objects."""
    reading = options if kind == "objects" else ReaderOptions(timezone=options.timezone)
    told = partial(_of_ingest, progress)
    return ingest(home, settings, kind, paths, reading, told, quarantine_unreadable=True)


def _of_ingest(progress: Progress, text: str) -> None:
    progress(LogMessage(text, step="ingest"))
