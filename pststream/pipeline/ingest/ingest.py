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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import PassingError, PstError, RetryableError, SettingError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.base.texts import counted, escape_controls
from pststream.base.utc_times import iso
from pststream.input.confined_files import find_folders
from pststream.input.input_files import find_files
from pststream.input.suite_files import Suite
from pststream.pipeline.ingest.cut_objects import withdraw_cut_objects
from pststream.pipeline.ingest.fetch_objects import ObjectSource, OfferedFile, is_fetched
from pststream.pipeline.ingest.groups import Round, count_oversized, cut_into_groups, round_of_groups
from pststream.pipeline.ingest.ingest_transaction import (
    append_file_of_home,
    append_files,
    delete_staged,
    finish_interrupted_ingest,
    number_files,
    stage_files,
)
from pststream.pipeline.ingest.isolated_reader import DEAD_TRIES, group_by_dead_tries, has_suspects, settle_suspects
from pststream.pipeline.ingest.known_files import GIVEN_PATH, LANDED, UNDATED, KnownFiles, owner_of
from pststream.pipeline.ingest.landing_gate import (
    NO_COPIES,
    load_landed_suites,
    quarantine_failing_files,
    quarantine_files,
)
from pststream.pipeline.ingest.local_files import (
    Stamp,
    folder_of_sender,
    has_changed,
    hash_files,
    may_grow,
    read_stamps,
    select_readable,
)
from pststream.pipeline.ingest.stage_file import (
    FOLDER,
    MAX_AHEAD,
    OWNER,
    STORED_SETTINGS,
    File,
    StagedFile,
    object_options,
    with_options,
)
from pststream.pipeline.ingest.staged_rows import OVERSIZED
from pststream.settings import Settings, SourceSettings, find_source
from pststream.state import fetched_files, quarantine
from pststream.state.data_files import SHARED
from pststream.state.home import Home
from pststream.tables.delta_tables import latest_dataset
from pststream.tables.ledgers import FileRow, Ledger, judged_by
from pststream.tables.owners import find_owner_fault, owner_of_landed

MAX_LISTED = 100
"""Pending files, and files that were read before at another path, that are listed one by one."""

MAX_EXPLAINED, MAX_EXAMPLES = 10, 3
"""Files with more rejected than accepted rows that are explained, and the rows that each is explained by."""

MAX_TRIES = 5
"""After so many tries a file whose rows do not fit on the disk is quarantined."""

EARLIER_WAITS = "an earlier file of its owner waits"


@dataclass(frozen=True)
class ReaderOptions:
    """Options of the readers; see input/parse_objects.py. `format` None: by the file's ending."""

    format: str | None = None
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    timezone: str = "UTC"
    time_unit: str | None = None
    attributes: bool | tuple[str, ...] = True
    types: tuple[tuple[str, str], ...] = ()
    source: str = ""
    max_text_bytes: int = 1_048_576


def options_of(settings: Settings, source: SourceSettings | None = None) -> ReaderOptions:
    """Return the options that the settings give: those of a source, or of files that are of none.

    Raises SettingError for options of the source that contradict each other.
    """
    options = ReaderOptions(timezone=settings.timezone, max_text_bytes=settings.max_text_bytes)
    if source is None:
        return options
    own = {name: getattr(source, name) for name in ("columns", "constants", "time_unit", "attributes", "types")}
    options = replace(options, source=source.name, timezone=source.timezone or settings.timezone, **own)
    try:
        object_options(options.__dict__)
    except PstError as error:
        raise SettingError(f"sources.{source.name}", str(error)) from None
    return options


def options_of_source(settings: Settings, name: str) -> ReaderOptions:
    """Return the options of a source; raises UsageError if there is none of this name."""
    named = [source for source in settings.sources if source.name == name]
    if not named:
        known = ", ".join(source.name for source in settings.sources) or "none"
        raise UsageError(f"no source is named {name!r}", f"sources in the settings: {known}")
    return options_of(settings, named[0])


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
    again: bool = False,
) -> dict[str, Any]:
    """Ingest the files of `paths` (files, folders, globs, or addresses in a bucket, see docs/input.md).

    Without options, those that the settings give.

    Returns {"files", "files_skipped" (judged before), "repeated": [{"path", "read_as"}] (of these, files that were read
    at another path), "rows", "accepted", "rejected", "rejects_by_reason": {reason: n}, "mostly_rejected": what
    `find_mostly_rejected` returns, "remarks": [{"path", "row", "keywords", "remark"}] (on valid keywords, one of each
    kind a file), "quarantined": [{"hold_id", "path", "reasons"}], "files_pending", "pending": [{"path", "reason",
    "since"}] (of buckets), "passed_over": [paths that wait, or could not be opened], "data_docs": [addresses of the
    pages on the files that suites have judged]}, which `pststream ingest --json` prints.

    With `quarantine_unreadable`, a file that is not in the format that its name or the options say is quarantined, and
    one that cannot be opened, or read just now, is left for the next ingest. Otherwise each raises InputFileError or
    PassingError, and nothing has changed. PassingError is raised in any case if no new file can be read just now. From
    a bucket, only the groups before the failing one are ingested. Raises SuiteError before any work.

    folder  the folder of this kind in a landing folder: the first folder below it is the owner of a file of requests;
            local files must not lead out of it. Without it, the latter holds for the folders and globs of `paths`
            (input/confined_files.py)
    owner   owner of the requests, without `folder`; raises UsageError for an invalid one, and for objects
    again   whether to read files that were judged before, too
    """
    if fault := find_owner_fault(owner) or (owner and kind != names.REQUESTS and "objects have no owner"):
        raise UsageError(fault, "give --owner NAME with requests: a name in UTF-8 without control characters")
    options = options or options_of(settings)
    object_options(options.__dict__)
    for source in settings.sources:
        options_of(settings, source)
    home.check()
    suites = load_landed_suites(home, [kind])[kind]
    addresses = [path for path in dict.fromkeys(paths) if is_fetched(path)]
    local = [path for path in paths if not is_fetched(path)]
    listed = find_files(local, options.format, any_name=quarantine_unreadable) if local else []
    folders = {path: folder_of_sender(path, folder) for path in listed} if folder else find_folders(listed, local)
    opened = select_readable(listed, progress, folders) if quarantine_unreadable else listed
    folders = {str(Path(path).absolute()): str(Path(one).absolute()) for path, one in folders.items()}
    landed = str(Path(folder).absolute()) if folder and not is_fetched(folder) else folder
    intake = _Intake(home, settings, kind, options, quarantine_unreadable, suites, progress, folders, landed, owner)
    with home.locked():
        ledger = Ledger(home)
        intake.apart = quarantine_unreadable and has_suspects(home)
        intake.rereading = again, frozenset(file["file_seq"] for file in ledger.unfinished_ingest())
        finish_interrupted_ingest(home, settings, progress, ledger)
        stamps = read_stamps(opened)
        offered = hash_files(home, stamps, quarantine_unreadable, folders) if local else []
        sources = intake.open_sources(addresses)
        try:
            intake.ingest_round(offered, stamps, sources)
            if quarantine_unreadable and kind == names.OBJECTS:
                settle_suspects(home)
        finally:
            fetched_files.remove_unneeded_copies(home)
    ingested = {one.path for one in offered} - set(intake.postponed)
    passed_over = [path for path in (str(Path(one).absolute()) for one in listed) if path not in ingested]
    pending = [one for source in sources for one in source.pending(settings.pending_seconds)]
    for one in pending[:MAX_LISTED]:
        progress(escape_controls(f"{one['path']}: pending: {one['reason']}"))
    repeated = [*intake.repeated, *(one for source in sources for one in source.repeated)]
    for one in repeated[:MAX_LISTED]:
        progress(escape_controls(f"{one['path']}: skipped: its content was read before, as {one['read_as']}"))
    summary = summary_of(
        intake.done, intake.quarantined, intake.skipped, pending, passed_over, intake.data_docs, repeated
    )
    for one in intake.remarks[:MAX_LISTED]:
        progress(escape_controls(f"{one['path']}:{one['row']}: {one['keywords']}: {one['remark']}"))
    explained = find_mostly_rejected(home, intake.done)
    return summary | {"mostly_rejected": explained, "remarks": intake.remarks[:MAX_LISTED]}


def find_mostly_rejected(home: Home, done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of some ingested files of which more than half of the rows were rejected, MAX_EXPLAINED at most.

    Returns [{"path", "accepted", "rejected", "reasons": {reason: n}, "watermark" (before the file), "lateness_seconds",
    "max_ahead_seconds" (of the file), "examples": [{"row", "field", "reason", "detail", "raw"}]}]: what decided.
    """
    columns = ["row", "field", "reason", "detail", "raw"]
    explained = []
    for file in [file for file in done if file["rejected"] > file["accepted"]][:MAX_EXPLAINED]:
        is_its = (pds.field("ingest_id") == file["ingest_id"]) & (pds.field("file") == file["path"])
        rejects = latest_dataset(home.table(names.REJECTS)).scanner(columns, is_its, batch_size=1_024)
        options = json.loads(file["options"])
        explained.append(
            {
                **{name: file[name] for name in ("path", "accepted", "rejected", "reasons")},
                "watermark": iso(judged_by(cast("FileRow", file))),
                **{name: options.get(name) for name in ("lateness_seconds", MAX_AHEAD)},
                "examples": rejects.head(MAX_EXAMPLES).sort_by("row").to_pylist(),
            }
        )
    return explained


def stored_options(
    options: ReaderOptions, settings: Settings, landed: bool, owner: str, folder: str | None = None
) -> str:
    """Return the options of a file as the ledger stores them, JSON.

    landed: whether `run`, a watcher or a DAG found the file
    owner: of requests; of landed objects the folder of the sender
    folder: that the file must not lead out of
    """
    more: dict[str, Any] = {name: getattr(settings, name) for name in STORED_SETTINGS}
    more |= {OWNER: owner} | ({LANDED: True} if landed else {}) | ({FOLDER: folder} if folder else {})
    return json.dumps(options.__dict__ | more, sort_keys=True)


@dataclass
class _Intake:
    """Ingests the files of one kind, group after group, and collects what became of them; the home is locked.

    rereading    whether files that were judged before are read, but for those (file_seq) that this call has finished
    done         ledger rows of ingested files
    quarantined  rows of `quarantine`, of files that failed the landing gate
    postponed    paths of files that wait for the next ingest
    skipped      number of files that were judged before
    remarks      [{"path", "row", "keywords", "remark"}] on keywords that may mean something else than was thought
    repeated     of these, files with another path than before: {"path", "read_as"}
    data_docs    addresses of the Data Docs that the suites have written
    apart        whether the files that follow are read one by one in a separate process
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
    rereading: tuple[bool, frozenset[int]] = (False, frozenset())
    done: list[dict[str, Any]] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    data_docs: list[str] = field(default_factory=list)
    repeated: list[dict[str, str]] = field(default_factory=list)
    remarks: list[dict[str, Any]] = field(default_factory=list)
    skipped: int = 0
    apart: bool = False
    _crowded_out: list[OfferedFile] = field(default_factory=list)
    _waiting: dict[str, str] = field(default_factory=dict)  # by owner, the first path that waits
    _options: dict[tuple[str, str | None, SourceSettings | None], str] = field(default_factory=dict)
    _failure: RetryableError | None = None

    def open_sources(self, addresses: Sequence[str]) -> list[ObjectSource]:
        """List the objects to ingest at each address in a bucket."""
        if not addresses:
            return []
        hashes = fetched_files.read_hash_cache(self.home)
        known = KnownFiles(self.home, self.kind, [sha256 for _, _, sha256 in hashes.values()], *self.rereading)
        return [
            ObjectSource(
                self.home,
                address,
                self.options.format,
                lambda path, sha256: known.find(path, sha256, self._options_of(path)),
                hashes,
                tolerant=self.quarantine_unreadable,
                max_bytes=self.settings.max_fetch_bytes,
                in_order=self.kind == names.REQUESTS,
            )
            for address in addresses
        ]

    def ingest_round(
        self, offered: Sequence[OfferedFile], stamps: Mapping[str, Stamp], sources: Sequence[ObjectSource]
    ) -> None:
        """Ingest local files and the objects of buckets in groups, each group as a transaction.

        Landed objects are one round: the watermark before the first group judges all of them. Files that have the same
        content are ingested one after the other, since only the ledger shows whether the second one is new. With
        `quarantine_unreadable`, files at which earlier ingests have died are transactions of their own, before the
        others. Once there are suspects, of any kind, all files are read apart: a new one may be as bad.

        stamps: of local files, before they were hashed. A file whose stamp differs after it was read is postponed.
        """
        is_round = self.quarantine_unreadable and self.kind == names.OBJECTS
        with round_of_groups(self.home, is_round) as round:
            left = list(offered)
            while left:
                new, left = self._select_new(left)
                new = [one for one in new if not self._waits(one)]
                if is_round:
                    withdraw_cut_objects(self.home, new, self.folders, self.progress)
                self._ingest_groups(new, stamps, round, bool(left or sources))
            for source in sources:  # copy the objects at an address group by group, and ingest each group
                self.skipped += source.skipped
                for copied in source.fetch_groups(self.settings):
                    for path in source.postponed:
                        self._wait_from(path)
                    while copied:
                        new, copied = self._select_new(copied)
                        follows = bool(copied) or source.groups_left > 0 or source is not sources[-1]
                        self._ingest_groups(new, stamps, round, follows)
        if self._failure is not None and not (self.done or self.quarantined):
            raise self._failure

    def _ingest_groups(
        self, new: Sequence[OfferedFile], stamps: Mapping[str, Stamp], round: Round, goes_on: bool
    ) -> None:
        """Ingest new files in groups; `goes_on`: more files of the round follow.

        Files that a command names are one group: if one of them cannot be read, nothing changes.
        """
        if not self.quarantine_unreadable:
            if new:
                self._ingest_group(new, stamps, round, goes_on)
            return
        by_tries = group_by_dead_tries(self.home, new)
        groups = [(tries, group) for tries, files in by_tries for group in cut_into_groups(round, files)]
        for number, (tries, group) in enumerate(groups, 1):
            self.apart |= tries == DEAD_TRIES
            while group:
                later = [one for one in group if self._is_later(one.path)]
                self._postpone([asdict(one) for one in later], EARLIER_WAITS)
                group = [one for one in group if one not in later]
                read = self._ingest_group(group, stamps, round, goes_on or number < len(groups)) if group else 0
                group = group[read:]
        alone, self._crowded_out = self._crowded_out, []
        for number, one in enumerate(alone, 1):  # others have taken the room on the disk
            self._ingest_group([one], stamps, round, goes_on or number < len(alone))

    def _ingest_group(
        self, group: Sequence[OfferedFile], stamps: Mapping[str, Stamp], round: Round, goes_on: bool
    ) -> int:
        """Ingest new files, in their order, as one transaction; `goes_on`: more groups of the round follow.

        Returns how many files it has opened: landed ones that take too long are left for another transaction.
        """
        ledger = Ledger(self.home)
        rows = [{"kind": self.kind, **asdict(one), "options": self._options_of(one.path)} for one in group]
        files = number_files(ledger, rows)
        staged = stage_files(self.home, self.settings, files, self.progress, self.quarantine_unreadable, self.apart)
        goes_on |= len(staged) < len(group)
        files = [with_options(file, {UNDATED: True}) if one.undated else file for file, one in zip(files, staged)]
        out = [file for file, one in zip(files, staged) if has_changed(file["path"], stamps) or not one.exists]
        self._postpone(out, "it changed while it was read")
        unseen = [file["path"] for file, one in zip(files, staged) if not one.exists and Path(file["path"]).exists()]
        if unseen:  # somebody renames it to and fro, or the nodes share no folder
            self._failure = self._failure or RetryableError(
                f"{unseen[0]}: is there, but a node does not see it", SHARED
            )
        for file, offered, one in zip(files, group, staged):
            if one.passing and file not in out:
                out.append(file)
                if one.refusal and len(group) > 1:
                    self._crowded_out.append(offered)
                else:
                    self._leave(file, one)
        out += self._hold_back(files, out)
        opened = len(staged)
        files, staged = _without(self.home, out, files, staged)
        if not files:
            return opened
        holds, changed, pages = quarantine_failing_files(self.home, self.settings, files, staged, self.suites)
        self.data_docs += pages
        for page in pages:
            self.progress(escape_controls(f"Data Docs: {page}"))
        self._report(holds)
        self._postpone(changed, "it changed while it was read")
        files, staged = _without(self.home, [*holds, *changed, *self._hold_back(files, changed)], files, staged)
        if files:
            self.remarks += [
                {"path": file["path"], "row": row, "keywords": keywords, "remark": remark}
                for file, one in zip(files, staged)
                for row, keywords, remark in one.remarks.values()
            ]
            options = round.options(ledger, goes_on or bool(self._crowded_out))
            self.done += append_files(self.home, self.settings, files, staged, ledger, self.progress, options)
        return opened

    def _report(self, holds: Sequence[File]) -> None:
        for hold in holds:
            self.progress(escape_controls(f"{hold['path']}: quarantined: {'; '.join(hold['reasons'])}"))
        self.quarantined += holds

    def _leave(self, file: File, staged: StagedFile) -> None:
        """Leave a file that could not be read, or whose rows do not fit on the disk, for the next ingest.

        A file whose rows alone take too much is quarantined after MAX_TRIES.
        """
        if staged.refusal != OVERSIZED:
            self._postpone([file], staged.refusal or os.strerror(staged.passing))
            if not staged.refusal:
                self._failure = self._failure or PassingError(file["path"], staged.passing)
        elif count_oversized(self.home, file["sha256"]) < MAX_TRIES:
            self._postpone([file], OVERSIZED)
        else:
            self._report(quarantine_files(self.home, [(file, [f"{OVERSIZED}, {MAX_TRIES} times"])], NO_COPIES))

    def _hold_back(self, files: Sequence[File], waiting: Sequence[File]) -> list[File]:
        """Postpone files of requests after one of the same owner that waits, so that requests keep their order."""
        if self.kind != names.REQUESTS or not waiting:
            return []
        for file in waiting:
            self._wait_from(file["path"])
        out = {file["path"] for file in waiting}
        later = [file for file in files if file["path"] not in out and self._is_later(file["path"])]
        self._postpone(later, EARLIER_WAITS)
        return later

    def _wait_from(self, path: str) -> None:
        """Let later files of the owner of a file wait."""
        owner = owner_of(self._options_of(path))
        self._waiting[owner] = min(path, self._waiting.get(owner, path))

    def _is_later(self, path: str) -> bool:
        """Whether a file of requests comes after one of the same owner that waits."""
        first = self._waiting.get(owner_of(self._options_of(path))) if self.kind == names.REQUESTS else None
        return first is not None and path > first

    def _waits(self, one: OfferedFile) -> bool:
        """Postpone a local file whose last line may still be written."""
        if not self.quarantine_unreadable or not may_grow(
            one.path, self.folders.get(one.path), self.options.format, self.settings.settle_seconds
        ):
            return False
        self._postpone([asdict(one)], "its last line has no end, and may still be written")
        self._wait_from(one.path)
        return True

    def _postpone(self, files: Sequence[File], reason: str) -> None:
        """Leave files for the next ingest."""
        for file in files:
            if not self.quarantine_unreadable:
                raise RetryableError(f"{file['path']}: {reason}", "run this again when nobody writes to it")
            self.progress(escape_controls(f"{file['path']}: left for the next ingest: {reason}"))
            self.postponed.append(file["path"])

    def _options_of(self, path: str) -> str:
        owner, source = self.owner, None
        if self.landed:
            owner = owner_of_landed(path, self.landed)
            source = find_source(self.settings.sources, path, self.landed) if self.kind == names.OBJECTS else None
        key = (owner, self.folders.get(path), source)
        if key not in self._options:
            options = options_of(self.settings, source) if source else self.options
            landed = self.quarantine_unreadable
            self._options[key] = stored_options(options, self.settings, landed, owner, self.folders.get(path))
        return self._options[key]

    def _select_new(self, offered: Sequence[OfferedFile]) -> tuple[list[OfferedFile], list[OfferedFile]]:
        """Return the files that are new, and those that have the content of one of them, which is to be read first."""
        known = KnownFiles(self.home, self.kind, [one.sha256 for one in offered], *self.rereading)
        new: dict[tuple[str, ...], OfferedFile] = {}
        left = []
        for one in offered:
            before = known.find(one.path, one.sha256, self._options_of(one.path))
            key = (one.sha256, *((one.path,) if known.are_undated(one.sha256) else ()))
            if before is not None:
                self.skipped += 1
                if before != one.path:
                    self.repeated.append({"path": one.path, "read_as": before})
            elif key in new:
                left.append(one)
            else:
                new[key] = one
        skipped = f", {self.skipped:,} skipped (ingested before)" if self.skipped else ""
        self.progress(f"{self.kind}: {counted(len(new), 'new file')}{skipped}")
        return list(new.values()), left


def _without(
    home: Home, out: Sequence[File], files: list[File], staged: list[StagedFile]
) -> tuple[list[File], list[StagedFile]]:
    """Return the files that are not among `out`, numbered without gaps; delete the rows of the others."""
    dropped = {file["path"] for file in out}
    if not dropped:
        return files, staged
    delete_staged(home, [one for file, one in zip(files, staged, strict=True) if file["path"] in dropped])
    kept = [(file, one) for file, one in zip(files, staged, strict=True) if file["path"] not in dropped]
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
            options |= {MAX_AHEAD: settings.max_ahead_seconds, GIVEN_PATH: hold["path"]}
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
    repeated: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    """Return the document of `ingest`."""
    reasons = sum((Counter(file["reasons"]) for file in done), Counter[str]())
    accepted, rejected = sum(f["accepted"] for f in done), sum(f["rejected"] for f in done)
    return {
        "files": len(done),
        "files_skipped": skipped,
        "repeated": list(repeated[:MAX_LISTED]),
        "rows": accepted + rejected,
        "accepted": accepted,
        "rejected": rejected,
        "rejects_by_reason": dict(sorted(reasons.items())),
        "mostly_rejected": [],
        "remarks": [],
        "quarantined": [{name: hold[name] for name in ("hold_id", "path", "reasons")} for hold in quarantined],
        "files_pending": len(pending),
        "pending": list(pending[:MAX_LISTED]),
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
