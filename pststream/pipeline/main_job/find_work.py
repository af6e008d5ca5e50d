"""Find out whether `pststream run` has anything to do, from the ledgers and the names of the files in a landing folder.

A job asks before it loads the code that ingests and matches, and a DAG before it submits to a cluster.
"""

from pathlib import Path

from pststream.base import names
from pststream.base.errors import RunnerBusy
from pststream.base.progress import no_progress
from pststream.input.input_files import files_below, has_format
from pststream.pipeline.ingest.fetch_objects import ObjectSource, is_fetched
from pststream.pipeline.ingest.local_files import UNCACHED_BYTES, hash_files, read_stamps, select_readable
from pststream.pipeline.main_job.landing_scanner import KINDS
from pststream.pipeline.questions.find_question_files import questions_wait
from pststream.settings import Settings
from pststream.state import fetched_files, quarantine
from pststream.state.home import RUNNER, Home
from pststream.tables.log_end import Ledger, known_hashes


def has_work(home: Home, settings: Settings, landing: str) -> bool:
    """Whether `run` would do or report anything: ingest a file, name one that it cannot read or that is pending, match
    pending rows, answer a file of questions, finish an interrupted step, create the home, or refuse the landing folder.
    If only reading a large file can answer this, the result is true.

    Raises RunnerBusy as `run` does.
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
            return any(_has_new_objects(home, settings, kind, folder) for kind, folder in folders)
        if any(_has_new_files(home, kind, folder) for kind, folder in folders):
            return True
        return questions_wait(home, landing)


def _has_new_files(home: Home, kind: str, folder: str) -> bool:
    """Whether a local folder has a file whose content is not in the log or in quarantine; the home is locked."""
    paths = [path for path in files_below(Path(folder).absolute()) if has_format(path, None)]
    folders = dict.fromkeys(paths, folder)
    if len(select_readable(paths, no_progress, folders)) < len(paths):
        return True
    stamps = read_stamps(paths)
    if sum(size for _, size in stamps.values()) > UNCACHED_BYTES:
        hashes = fetched_files.read_hash_cache(home)
        if any(path not in hashes or hashes[path][:2] != stamp for path, stamp in stamps.items()):
            return True
    offered = {file.sha256 for file in hash_files(home, stamps, tolerant=True, folders=folders)}
    return not offered <= _known(home, kind, offered)


def _has_new_objects(home: Home, settings: Settings, kind: str, folder: str) -> bool:
    """Whether a bucket folder has an object to copy, or one that `run` reports as pending; the home is locked."""
    hashes = fetched_files.read_hash_cache(home)
    known = _known(home, kind, {sha256 for _, _, sha256 in hashes.values()})
    source = ObjectSource(home, folder, None, known, hashes, tolerant=True, max_bytes=settings.max_fetch_bytes)
    return source.has_ready or bool(source.pending(settings.pending_seconds))


def _known(home: Home, kind: str, hashes: set[str]) -> set[str]:
    """Return the hashes of all quarantined content of a kind, and those in `hashes` whose content is in the log."""
    quarantined = quarantine.judged_files(home)
    return {sha256 for of_kind, sha256 in known_hashes(home, hashes) | quarantined if of_kind == kind}
