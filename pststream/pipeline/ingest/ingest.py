"""Ingest: files into the log, each file once, each row into the log or the rejects.

Files are read into staged files before anything is written, so a file that cannot be read changes nothing. The landing
gate holds the files that fail as wholes. Then the ledger gets a row for each other file (`started`), the log judges the
rows, the tables get them, and the ledger another row for each file (`done`). An ingest that was left unfinished is
finished first: from what it had read, or from the same files if that is not there any more.
"""

import datetime as dt
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pststream import lineage, names
from pststream.errors import HomeError, InputFileError, RetryableError
from pststream.escape_text import plain
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.ingest import staging_folder
from pststream.pipeline.ingest.append_rows import ROWS_OF, Accepted, Accepting, accept
from pststream.pipeline.ingest.deduplicate import FIRST, judge
from pststream.pipeline.ingest.fetch_objects import Offered, Source, copy_again
from pststream.pipeline.ingest.landing_gate import File, gate
from pststream.pipeline.ingest.local_files import Stamp, has_changed, hashed, readable, stamps_of
from pststream.pipeline.ingest.stage_files import Staged, object_options, stage_file
from pststream.progress import Progress, no_progress
from pststream.quality.readers import find_files, sha256_of
from pststream.settings import Settings
from pststream.state import fetched_files, ledger_tables, quarantine
from pststream.state.crash_points import crash_point
from pststream.state.data_files import SHARED, commit
from pststream.state.home import Home
from pststream.state.ledger import Ledger, known_hashes
from pststream.storage.addresses import in_bucket

MOST_PENDING = 100
"""Pending files that are told of one by one."""


@dataclass(frozen=True)
class ReaderOptions:
    """How files are read; see quality/parse_objects.py. `format` None: by the file's ending."""

    format: str | None = None
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    timezone: str = "UTC"
    max_text_bytes: int = 1_048_576


def ingest(
    home: Home,
    settings: Settings,
    kind: str,
    paths: Sequence[str],
    options: ReaderOptions,
    progress: Progress = no_progress,
    hold_unreadable: bool = False,
) -> dict[str, Any]:
    """Take in the files of `paths` (files, folders, globs).

    Returns {"files", "files_skipped" (known before), "rows", "accepted", "rejected", "rejects_by_reason": {reason: n},
    "quarantined": [{"hold_id", "path", "reasons"}], "files_pending", "pending": [{"path", "reason", "since"}] (of
    buckets), "passed_over": [paths that could not be opened]}, what `pststream ingest --json` prints.

    A path may be an address in a bucket (docs/s3.md). A file that cannot be read as what it is offered as is held in
    quarantine with `hold_unreadable`, and one that cannot be opened is left for the next time; else each raises
    InputFileError, and nothing was changed (of a bucket's files: nothing of the part that it is in).
    """
    object_options(options.__dict__)
    home.check()
    addresses = [path for path in dict.fromkeys(paths) if path.startswith(names.BUCKETS)]
    local = [path for path in paths if not path.startswith(names.BUCKETS)]
    found = find_files(local, options.format) if local else []
    wanted = found
    if hold_unreadable:
        found = readable(found, progress)
    taking = _Taking(home, settings, kind, options, hold_unreadable, progress)
    with home.locked():
        finish(home, settings, progress)
        stamps = stamps_of(found)
        offered = hashed(home, stamps, hold_unreadable) if local else []
        learnt = fetched_files.read_learnt(home) if addresses else {}
        known = taking.known([what for _, _, what in learnt.values()]) if addresses else set()
        sources = [Source(home, one, options.format, known, learnt, hold_unreadable) for one in addresses]
        if local:
            taking.take(offered, stamps)
        try:
            for source in sources:
                taking.skipped += source.skipped
                for part in source.parts():
                    taking.take(part)
        finally:
            fetched_files.tidy(home)
    taken = {one.path for one in offered} - set(taking.left)
    passed_over = [path for path in (str(Path(one).absolute()) for one in wanted) if path not in taken]
    pending = [one for source in sources for one in source.pending(settings.pending_seconds)]
    for one in pending[:MOST_PENDING]:
        progress(plain(f"{one['path']}: pending: {one['reason']}"))
    return _figures(taking.done, taking.held, taking.skipped, pending, passed_over)


class _Taking:
    """Files of one kind, taken in part by part; the home is locked."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        kind: str,
        options: ReaderOptions,
        hold_unreadable: bool,
        progress: Progress,
    ) -> None:
        self._home, self._settings, self._kind, self._options = home, settings, kind, options
        self._hold_unreadable, self._progress = hold_unreadable, progress
        self.done: list[dict[str, Any]] = []
        self.held: list[dict[str, Any]] = []
        self.left: list[str] = []
        self.skipped = 0

    def known(self, offered: Collection[str]) -> set[str]:
        """Those of these hashes that are of content that the log has, and all of content that is held."""
        held = {(hold["kind"], hold["sha256"]) for hold in quarantine.holds(self._home)}
        return {sha256 for kind, sha256 in known_hashes(self._home, offered) | held if kind == self._kind}

    def take(self, offered: Sequence[Offered], stamps: dict[str, Stamp] | None = None) -> None:
        """Take in those that are new, in the order offered; hold those that fail the gate. `stamps`: of local files,
        before they were hashed; one that is another after it was read is left for the next time.
        """
        home, settings = self._home, self._settings
        ledger = Ledger(home)
        files = self._new(offered, ledger)
        self._progress(f"{self._kind}: {len(files)} new files, {self.skipped} known")
        if not files:
            return
        staged = _staged(home, settings, files, self._hold_unreadable)
        changed = [file for file in files if has_changed(file["path"], stamps or {})]
        self._leave(changed, offered)
        files, staged = _without(changed, files, staged)
        if not files:
            return
        held, changed = gate(home, settings, files, staged, ledger.watermark())
        for hold in held:
            self._progress(plain(f"{hold['path']}: held in quarantine: {'; '.join(hold['reasons'])}"))
        self._leave(changed, offered)
        self.held += held
        files, staged = _without([*held, *changed], files, staged)
        if files:
            self.done += _begin(home, settings, files, staged, ledger, self._progress)

    def _leave(self, changed: Sequence[File], offered: Sequence[Offered]) -> None:
        """Leave files, and others that were as these were, for the next time."""
        for file in changed:
            reason = "it changed while it was read"
            if not self._hold_unreadable:
                raise RetryableError(f"{file['path']}: {reason}", "run this again when nobody writes to it")
            self._progress(plain(f"{file['path']}: left for the next time, as {reason}"))
            self.left += [one.path for one in offered if one.sha256 == file["sha256"]]

    def _new(self, offered: Sequence[Offered], ledger: Ledger) -> list[File]:
        """Ledger rows of the files whose content is new."""
        known, files = self.known([one.sha256 for one in offered]), []
        for one in offered:
            if one.sha256 not in known:
                known.add(one.sha256)
                options = json.dumps(self._options.__dict__, sort_keys=True)
                files.append({"kind": self._kind, **asdict(one), "options": options})
        self.skipped += len(offered) - len(files)
        return _numbered(ledger, files)


def release(home: Home, settings: Settings, numbers: Sequence[int], progress: Progress = no_progress) -> dict[str, Any]:
    """Take held files into the log, whatever the gate said, an ingest each; returns what `ingest` prints.

    Raises InputFileError for one that cannot be read: nothing was changed by it then.
    """
    home.check()
    done = []
    with home.locked():
        finish(home, settings, progress)
        for hold in quarantine.held(home, numbers, quarantine.RELEASED):
            file = {name: hold[name] for name in ("kind", "sha256", "bytes", "options")}
            ledger = Ledger(home)
            files = _numbered(ledger, [file | {"path": f"{home.path}/{hold['copy']}"}])
            if in_bucket(home.path):
                copy_again(home, files[0])
            done += _begin(home, settings, files, _staged(home, settings, files), ledger, progress)
        quarantine.tidy(home)
        fetched_files.tidy(home)
    return _figures(done, [], 0, [])


def finish(home: Home, settings: Settings, progress: Progress) -> None:
    """Finish an ingest that was killed; the home is locked."""
    ledger = Ledger(home)
    unfinished = ledger.unfinished_ingest()
    if not unfinished:
        return
    progress(f"finishing ingest {unfinished[0]['ingest_id']}, which was left unfinished")
    staged = staging_folder.kept(home, unfinished)
    for file in unfinished if staged is None else ():
        if not _is_whole(home, file) and file["path"].startswith(names.BUCKETS):
            copy_again(home, file)
        if not _is_whole(home, file):
            raise HomeError(
                home.path,
                f"ingest {file['ingest_id']} was left unfinished, and {file['path']} is gone or has changed",
                "put the file back as it was, then run this again",
            )
    if staged is None:
        staged = _staged(home, settings, unfinished)
    _told(home, settings, unfinished, staged, ledger, progress)


def _is_whole(home: Home, file: File) -> bool:
    """Whether the bytes of a file are there as the ledger says."""
    path = fetched_files.local_path(home, file)
    return Path(path).is_file() and sha256_of(path) == file["sha256"]


def _numbered(ledger: Ledger, files: list[File]) -> list[File]:
    """The files as the next ingest of the log."""
    at = ledger_tables.now()
    place = {"ingest_id": ledger.next_ingest_id, "status": "started", "at": at}
    return [file | place | {"file_seq": seq} for seq, file in enumerate(files, ledger.next_file_seq)]


def _staged(home: Home, settings: Settings, files: list[File], hold_unreadable: bool = False) -> list[Staged]:
    """Read the files of one kind into staged files, in their order."""
    folder = staging_folder.folder_of(home)
    staging_folder.clear(home)
    read = partial(stage_file, files[0]["kind"], folder, files[0]["at"])
    told = [file | {"path": fetched_files.local_path(home, file)} for file in files]
    staged = sorted(get_engine(settings).run_tasks(told, read), key=lambda one: one.file_seq)
    for file, one in zip(files, staged, strict=True):
        if not one.seen and Path(fetched_files.local_path(home, file)).exists():
            raise RetryableError(f"{file['path']}: is there, but a node does not see it", SHARED)
        if one.problem and not hold_unreadable:
            raise InputFileError(file["path"], *one.problem[1:])
    crash_point("ingest.parsed")
    return staged


def _without(out: list[File], files: list[File], staged: list[Staged]) -> tuple[list[File], list[Staged]]:
    """The files that are not among `out`, numbered without gaps."""
    left = {file["sha256"] for file in out}
    kept = [(file, one) for file, one in zip(files, staged, strict=True) if file["sha256"] not in left]
    numbered = [file | {"file_seq": files[place]["file_seq"]} for place, (file, _) in enumerate(kept)]
    return numbered, [replace(one, file_seq=file["file_seq"]) for file, (_, one) in zip(numbered, kept)]


def _begin(
    home: Home, settings: Settings, files: list[File], staged: list[Staged], ledger: Ledger, progress: Progress
) -> list[dict[str, Any]]:
    """Write an ingest's files to the ledger, and take them in; what was read of them is kept until they are done."""
    files = [file | {"options": _with_lateness(file["options"], settings)} for file in files]
    staging_folder.keep(home, files, staged)
    ledger_tables.append(home, names.FILES, files)
    crash_point("ingest.started")
    return _told(home, settings, files, staged, ledger, progress)


def _with_lateness(options: str, settings: Settings) -> str:
    """The options of a file with the lateness that it is judged by, should another process finish it."""
    return json.dumps(json.loads(options) | {"lateness_seconds": settings.lateness_seconds}, sort_keys=True)


def _told(
    home: Home, settings: Settings, files: list[File], staged: list[Staged], ledger: Ledger, progress: Progress
) -> list[dict[str, Any]]:
    """Take them in, and tell it as a run of lineage."""
    writes = [home.table(name) for name in (ROWS_OF[files[0]["kind"]], names.REJECTS)]
    reads = [file["path"] for file in files]
    with lineage.run(home.path, "ingest", files[0]["ingest_id"], reads, writes) as told:
        done = _take_in(home, settings, files, staged, ledger, progress)
        told.update({name: sum(row[name] for row in done) for name in ("rows", "accepted", "rejected")})
    return done


def _take_in(
    home: Home, settings: Settings, files: list[File], staged: list[Staged], ledger: Ledger, progress: Progress
) -> list[dict[str, Any]]:
    """Judge and write the rows of the files of one ingest; returns their ledger rows, done. `ledger`: as it was before
    these files were done.
    """
    engine, folder = get_engine(settings), staging_folder.folder_of(home)
    kind, ingest_id = files[0]["kind"], files[0]["ingest_id"]
    watermarks = _watermarks(ledger, files, staged)
    # A file that was begun by an older version has no lateness of its own.
    late_by = json.loads(files[0]["options"]).get("lateness_seconds", settings.lateness_seconds) * 1_000_000
    horizons = {seq: FIRST if mark is None else mark - late_by for seq, mark in watermarks.items()}
    verdicts = tuple(judge(home, settings, kind, staged, horizons, folder))
    of_file = {one.file_seq: one for one in staged}
    told = [
        Accepting(kind, home.path, ingest_id, of_file[f["file_seq"]], f["path"], horizons[f["file_seq"]], verdicts)
        for f in files
    ]
    accepted = engine.run_tasks(told, accept)
    rows = [one.rows for one in accepted if one.rows]
    commit(home, ROWS_OF[kind], rows, application="ingest", transaction=ingest_id)
    crash_point(f"ingest.{kind}_written")
    rejects = [one.rejects for one in accepted if one.rejects]
    if rejects:
        commit(home, names.REJECTS, rejects, application="ingest", transaction=ingest_id)
    crash_point("ingest.rejects_written")
    done = _done(files, of_file, {one.file_seq: one for one in accepted}, watermarks)
    ledger_tables.append(home, names.FILES, [{k: v for k, v in f.items() if k != "reasons"} for f in done])
    crash_point("ingest.done")
    staging_folder.clear(home)
    for file in done:
        progress(f"{file['path']}: {file['accepted']} accepted, {file['rejected']} rejected")
    return done


def _watermarks(ledger: Ledger, files: list[dict[str, Any]], staged: list[Staged]) -> dict[int, int | None]:
    """Greatest ts (microseconds) in the files of objects before each of these; None if there is none."""
    if files[0]["kind"] != "objects":
        return {file["file_seq"]: None for file in files}
    before = ledger.watermark()
    greatest = None if before is None else ledger_tables.micros_of(before)
    own = {one.file_seq: one.max_time for one in staged}
    marks: dict[int, int | None] = {}
    for file in files:
        marks[file["file_seq"]] = greatest
        found = own[file["file_seq"]]
        if found is not None:
            greatest = found if greatest is None else max(greatest, found)
    return marks


def _done(
    files: list[dict[str, Any]],
    staged: dict[int, Staged],
    accepted: dict[int, Accepted],
    watermarks: dict[int, int | None],
) -> list[dict[str, Any]]:
    """Ledger rows of the files when done, with the counts of rejects by reason."""
    done = []
    for file in files:
        read, found = staged[file["file_seq"]], accepted[file["file_seq"]]
        done.append(
            {
                **file,
                "status": "done",
                "rows": read.last_row,
                "accepted": found.accepted,
                "rejected": sum(found.reasons.values()),
                "watermark": _moment(watermarks[file["file_seq"]]),
                "min_ts": _moment(found.min_time),
                "max_ts": _moment(read.max_time),
                "reasons": found.reasons,
            }
        )
    return done


def _moment(micros: int | None) -> dt.datetime | None:
    return None if micros is None else dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


def _figures(
    done: list[dict[str, Any]],
    held: list[dict[str, Any]],
    skipped: int,
    pending: list[dict[str, Any]],
    passed_over: Sequence[str] = (),
) -> dict[str, Any]:
    reasons: dict[str, int] = {}
    for file in done:
        for reason, count in file["reasons"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    accepted, rejected = sum(f["accepted"] for f in done), sum(f["rejected"] for f in done)
    return {
        "files": len(done),
        "files_skipped": skipped,
        "rows": accepted + rejected,
        "accepted": accepted,
        "rejected": rejected,
        "rejects_by_reason": dict(sorted(reasons.items())),
        "quarantined": [{name: hold[name] for name in ("hold_id", "path", "reasons")} for hold in held],
        "files_pending": len(pending),
        "pending": pending[:MOST_PENDING],
        "passed_over": list(passed_over),
    }
