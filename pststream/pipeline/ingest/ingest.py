"""Ingest input files (`pststream ingest`), each content once: rows into the log or `rejects`, or a file in quarantine.

The files are first staged: read, and checked row by row. So a file that cannot be read changes nothing. Then the
landing gate and the users' suites quarantine files that fail as a whole, and `ingest_transaction.py` appends the rows
of the other files to the log. An interrupted ingest is finished before a new one begins. `release` ingests quarantined
files after all.
"""

import datetime as dt
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.errors import PassingError, RetryableError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.base.texts import counted, escape_controls
from pststream.input.confined_files import find_folders
from pststream.input.input_files import find_files
from pststream.input.suite_files import Suite
from pststream.pipeline.ingest.fetch_objects import ObjectSource, OfferedFile, is_fetched
from pststream.pipeline.ingest.ingest_transaction import (
    append_file_of_home,
    append_files,
    finish_interrupted_ingest,
    number_files,
    stage_files,
)
from pststream.pipeline.ingest.landing_gate import load_landed_suites, quarantine_failing_files
from pststream.pipeline.ingest.local_files import Stamp, has_changed, hash_files, read_stamps, select_readable
from pststream.pipeline.ingest.stage_file import (
    FOLDER,
    MAX_AHEAD,
    OWNER,
    STORED_SETTINGS,
    File,
    StagedFile,
    object_options,
)
from pststream.settings import Settings
from pststream.state import fetched_files, quarantine
from pststream.state.home import Home
from pststream.tables.ledgers import Ledger, known_hashes
from pststream.tables.owners import find_owner_fault, owner_of_landed

MAX_LISTED_PENDING = 100
"""Pending files that are listed one by one."""


@dataclass(frozen=True)
class ReaderOptions:
    """Options of the readers; see input/parse_objects.py. `format` None: by the file's ending."""

    format: str | None = None
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    timezone: str = "UTC"
    max_text_bytes: int = 1_048_576


def options_of(settings: Settings) -> ReaderOptions:
    """Return the options that the settings give."""
    return ReaderOptions(timezone=settings.timezone, max_text_bytes=settings.max_text_bytes)


def has_rejects(document: Mapping[str, Any]) -> bool:
    """Whether files, as a document counts them, have rejected rows or were quarantined."""
    return bool(document["rejected"] or document.get("quarantined"))


def ingest(
    home: Home,
    settings: Settings,
    kind: str,
    paths: Sequence[str],
    options: ReaderOptions | None = None,
    progress: Progress = no_progress,
    quarantine_unreadable: bool = False,
    folder: str | None = None,
    owner: str = "",
) -> dict[str, Any]:
    """Ingest the files of `paths` (files, folders, globs, or addresses in a bucket, see docs/input.md).

    Without options, those that the settings give.

    Returns {"files", "files_skipped" (ingested before), "rows", "accepted", "rejected", "rejects_by_reason":
    {reason: n}, "quarantined": [{"hold_id", "path", "reasons"}], "files_pending", "pending": [{"path", "reason",
    "since"}] (of buckets), "passed_over": [paths that could not be opened], "data_docs": [addresses of the pages on the
    files that suites have judged]}, which `pststream ingest --json` prints.

    With `quarantine_unreadable`, a file that is not in the format that its name or the options say is quarantined, and
    one that cannot be opened, or read just now, is left for the next ingest. Otherwise each raises InputFileError or
    PassingError, and nothing has changed. PassingError is raised in any case if no new file can be read just now. From
    a bucket, only the groups before the failing one are ingested. Raises SuiteError before any work.

    folder  the folder of this kind in a landing folder: the first folder below it is the owner of a file of requests;
            local files must not lead out of it. Without it, the latter holds for the folders and globs of `paths`
            (input/confined_files.py)
    owner   owner of the requests, without `folder`; raises UsageError for an invalid one, and for objects
    """
    if fault := find_owner_fault(owner) or (owner and kind != names.REQUESTS and "objects have no owner"):
        raise UsageError(fault, "give --owner NAME with requests: a name in UTF-8 without control characters")
    options = options or options_of(settings)
    object_options(options.__dict__)
    home.check()
    suites = load_landed_suites(home, [kind])[kind]
    addresses = [path for path in dict.fromkeys(paths) if is_fetched(path)]
    local = [path for path in paths if not is_fetched(path)]
    listed = find_files(local, options.format, any_name=quarantine_unreadable) if local else []
    folders = dict.fromkeys(listed, folder) if folder else find_folders(listed, local)
    opened = select_readable(listed, progress, folders) if quarantine_unreadable else listed
    folders = {str(Path(path).absolute()): str(Path(one).absolute()) for path, one in folders.items()}
    landed = str(Path(folder).absolute()) if folder and not is_fetched(folder) else folder
    intake = _Intake(home, settings, kind, options, quarantine_unreadable, suites, progress, folders, landed, owner)
    with home.locked():
        ledger = finish_interrupted_ingest(home, settings, progress)
        stamps = read_stamps(opened)
        offered = hash_files(home, stamps, quarantine_unreadable, folders) if local else []
        sources = intake.open_sources(addresses)
        if local:
            intake.ingest_group(offered, ledger, stamps)
        try:
            for source in sources:  # copy the objects at an address group by group, and ingest each group
                intake.skipped += source.skipped
                for group in source.fetch_groups(settings):
                    intake.ingest_group(group, Ledger(home))
        finally:
            fetched_files.remove_unneeded_copies(home)
    ingested = {one.path for one in offered} - set(intake.postponed)
    passed_over = [path for path in (str(Path(one).absolute()) for one in listed) if path not in ingested]
    pending = [one for source in sources for one in source.pending(settings.pending_seconds)]
    for one in pending[:MAX_LISTED_PENDING]:
        progress(escape_controls(f"{one['path']}: pending: {one['reason']}"))
    return summary_of(intake.done, intake.quarantined, intake.skipped, pending, passed_over, intake.data_docs)


@dataclass
class _Intake:
    """Ingests the files of one kind, group after group, and collects what became of them; the home is locked.

    done         ledger rows of ingested files
    quarantined  rows of `quarantine`, of files that failed the landing gate
    postponed    paths of files that changed while they were read
    skipped      number of files whose content was ingested or quarantined before
    data_docs    addresses of the Data Docs that the suites have written
    """

    home: Home
    settings: Settings
    kind: str
    options: ReaderOptions
    quarantine_unreadable: bool
    suites: Sequence[Suite]
    progress: Progress
    folders: Mapping[str, str]
    landed: str | None
    owner: str
    done: list[dict[str, Any]] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    data_docs: list[str] = field(default_factory=list)
    skipped: int = 0

    def open_sources(self, addresses: Sequence[str]) -> list[ObjectSource]:
        """List the objects to ingest at each address in a bucket."""
        if not addresses:
            return []
        hashes = fetched_files.read_hash_cache(self.home)
        known = known_of_kind(self.home, self.kind, [sha256 for _, _, sha256 in hashes.values()])
        return [
            ObjectSource(
                self.home,
                address,
                self.options.format,
                known,
                hashes,
                tolerant=self.quarantine_unreadable,
                max_bytes=self.settings.max_fetch_bytes,
            )
            for address in addresses
        ]

    def ingest_group(
        self, offered: Sequence[OfferedFile], ledger: Ledger, stamps: dict[str, Stamp] | None = None
    ) -> None:
        """Ingest the offered files with new content, in their order, as one transaction.

        ledger: as it is before these files
        stamps: of local files, before they were hashed. A file whose stamp differs after it was read is postponed.
        """
        files = self._select_new(offered, ledger)
        skipped = f", {self.skipped:,} skipped (ingested before)" if self.skipped else ""
        self.progress(f"{self.kind}: {counted(len(files), 'new file')}{skipped}")
        if not files:
            return
        staged = stage_files(self.home, self.settings, files, self.progress, self.quarantine_unreadable)
        changed = [file for file in files if has_changed(file["path"], stamps or {})]
        self._postpone(changed, offered)
        unavailable = [(file, one.passing) for file, one in zip(files, staged) if one.passing]
        for file, number in unavailable:
            self._postpone([file], offered, os.strerror(number))
        if len(unavailable) == len(files):
            raise PassingError(files[0]["path"], unavailable[0][1])
        files, staged = _without([*changed, *(file for file, _ in unavailable)], files, staged)
        if not files:
            return
        holds, changed, pages = quarantine_failing_files(self.home, self.settings, files, staged, self.suites)
        self.data_docs += pages
        for page in pages:
            self.progress(escape_controls(f"Data Docs: {page}"))
        for hold in holds:
            self.progress(escape_controls(f"{hold['path']}: quarantined: {'; '.join(hold['reasons'])}"))
        self._postpone(changed, offered)
        self.quarantined += holds
        files, staged = _without([*holds, *changed], files, staged)
        if files:
            self.done += append_files(self.home, self.settings, files, staged, ledger, self.progress)

    def _postpone(
        self, files: Sequence[File], offered: Sequence[OfferedFile], reason: str = "it changed while it was read"
    ) -> None:
        """Leave files, and every offered file with the same hash, for the next ingest."""
        for file in files:
            if not self.quarantine_unreadable:
                raise RetryableError(f"{file['path']}: {reason}", "run this again when nobody writes to it")
            self.progress(escape_controls(f"{file['path']}: left for the next ingest: {reason}"))
            self.postponed += [one.path for one in offered if one.sha256 == file["sha256"]]

    def _select_new(self, offered: Sequence[OfferedFile], ledger: Ledger) -> list[File]:
        """Return ledger rows of the files whose content is new."""
        known, files = known_of_kind(self.home, self.kind, [one.sha256 for one in offered]), []
        for one in offered:
            if one.sha256 not in known:
                known.add(one.sha256)
                more = {name: getattr(self.settings, name) for name in STORED_SETTINGS}
                if self.kind == names.REQUESTS:
                    more[OWNER] = owner_of_landed(one.path, self.landed) if self.landed else self.owner
                if one.path in self.folders:
                    more[FOLDER] = self.folders[one.path]
                options = json.dumps(self.options.__dict__ | more, sort_keys=True)
                files.append({"kind": self.kind, **asdict(one), "options": options})
        self.skipped += len(offered) - len(files)
        return number_files(ledger, files)


def known_of_kind(home: Home, kind: str, hashes: Collection[str]) -> set[str]:
    """Return those of the hashes whose content is in the log, or was quarantined, as files of this kind."""
    known = known_hashes(home, hashes) | quarantine.judged_files(home, hashes)
    return {sha256 for of_kind, sha256 in known if of_kind == kind}


def _without(out: list[File], files: list[File], staged: list[StagedFile]) -> tuple[list[File], list[StagedFile]]:
    """Return the files that are not among `out`, numbered without gaps."""
    dropped = {file["sha256"] for file in out}
    kept = [(file, one) for file, one in zip(files, staged, strict=True) if file["sha256"] not in dropped]
    numbered = [file | {"file_seq": files[index]["file_seq"]} for index, (file, _) in enumerate(kept)]
    return numbered, [replace(one, file_seq=file["file_seq"]) for file, (_, one) in zip(numbered, kept)]


def release(home: Home, settings: Settings, numbers: Sequence[int], progress: Progress = no_progress) -> dict[str, Any]:
    """Ingest quarantined files without the landing gate, each as a transaction; return what `ingest` returns.

    Raises InputFileError for a file that cannot be read; that file has then changed nothing.
    """
    home.check()
    done = []
    with home.locked():
        finish_interrupted_ingest(home, settings, progress)
        for hold in quarantine.find_quarantined(home, numbers, quarantine.RELEASED):
            file = {name: hold[name] for name in ("kind", "sha256", "bytes", "options")}
            options = {key: value for key, value in json.loads(file["options"]).items() if key != FOLDER}
            options |= {MAX_AHEAD: settings.max_ahead_seconds}
            copy = {"path": f"{home.path}/{hold['copy']}", "options": json.dumps(options, sort_keys=True)}
            done += append_file_of_home(home, settings, file | copy, Ledger(home), progress)
        quarantine.remove_unneeded_copies(home)
        fetched_files.remove_unneeded_copies(home)
    return summary_of(done)


def summary_of(
    done: list[dict[str, Any]],
    quarantined: Sequence[dict[str, Any]] = (),
    skipped: int = 0,
    pending: Sequence[dict[str, Any]] = (),
    passed_over: Sequence[str] = (),
    data_docs: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the document of `ingest`."""
    reasons = sum((Counter(file["reasons"]) for file in done), Counter[str]())
    accepted, rejected = sum(f["accepted"] for f in done), sum(f["rejected"] for f in done)
    return {
        "files": len(done),
        "files_skipped": skipped,
        "rows": accepted + rejected,
        "accepted": accepted,
        "rejected": rejected,
        "rejects_by_reason": dict(sorted(reasons.items())),
        "quarantined": [{name: hold[name] for name in ("hold_id", "path", "reasons")} for hold in quarantined],
        "files_pending": len(pending),
        "pending": list(pending[:MAX_LISTED_PENDING]),
        "passed_over": list(passed_over),
        "data_docs": list(data_docs),
    }


ACTIONS = ("release", "discard")


def decide_quarantined(
    home: Home,
    settings: Settings,
    *,
    action: str,
    holds: Sequence[int] = (),
    older: dt.timedelta | None = None,
    progress: Progress,
) -> dict[str, Any]:
    """Return what `ingest` returns, or {"discarded": [{"hold_id", "path"}]}.

    holds: numbers of the files; older: of `discard`, all files that are in quarantine for longer, too
    """
    if action == "release":
        return release(home, settings, holds, progress)
    rows = quarantine.discard(home, holds, older)
    return {"discarded": [{name: row[name] for name in ("hold_id", "path")} for row in rows]}


def read_numbers(text: str) -> list[int]:
    """Return the numbers in a text such as `3, 5`."""
    return [int(word) for word in re.split(r"[\s,]+", text) if word]
