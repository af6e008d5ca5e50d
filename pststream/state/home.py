"""Create, check, lock and upgrade a home: the folder or bucket prefix of all its tables, with settings and format."""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, Transaction

from pststream.base import names
from pststream.base.errors import HomeBusy, HomeError, SettingError
from pststream.queries.text.words import TOKENIZER
from pststream.settings import FILE, Settings, default_file, load_settings
from pststream.state import locks
from pststream.state.crash_points import crash_point
from pststream.state.delta_log import APPEND_ONLY, declared_columns, first_entry
from pststream.state.locks import HeldLock, LockTaken
from pststream.state.tables import TABLES, Table, has_bounds
from pststream.storage.contract import Files, Storage
from pststream.storage.registry import normalize, storage_of

FORMAT = 1
"""Format of homes. Until 0.1.0 is released it stays 1: a home with other tables is refused (`digest_of_tables`). After
that, a change of tables increments it and adds a step to state/home.py.
"""

TOO_OLD = "was made by a version before 0.1.0; ingest its files into a new home"
"""What is wrong with a home without a format, or with other tables than this version declares."""

RUNNER = "run"
"""Scope of the lock that `pststream run` holds until it ends; it keeps out a second runner, but not upkeep."""

RUNNER_WAIT_SECONDS = 60.0
"""How long other commands wait for the home while a runner works on it."""

STREAMS = (names.OBJECTS, names.REQUESTS, names.MATCHES)
"""Tables that other programs read as a stream."""

LOG_RETENTION = "delta.logRetentionDuration"
BOUNDED_COLUMNS = "delta.dataSkippingStatsColumns"


def log_retention(table: Table) -> str:
    """Return how long the entries of a table's log are kept.

    Delta lists the folder of the log whenever it opens a table: 0.7 us for each entry. A watcher that has a file every
    two seconds writes 40,000 entries a day to a log. A batch opens each ledger a dozen times, and nobody reads older
    versions of ledgers. A batch opens each table that grows with the data one to four times; those that other programs
    read as a stream are kept so long that a reader may stand still for some days.
    """
    if table.name in STREAMS:
        return "interval 7 days"
    return "interval 1 hours" if table.writer == "control" else "interval 1 days"


def declared_properties(table: Table) -> dict[str, str]:
    """Return the Delta properties of a new table that follow from its declaration.

    `FileWriter` keeps bounds of some columns only, so the property BOUNDED_COLUMNS lists them for readers.
    """
    columns = [c.name for c in table.schema if c.name not in table.partitions and has_bounds(c)]
    properties = {LOG_RETENTION: log_retention(table), BOUNDED_COLUMNS: ",".join(columns)}
    return properties | ({APPEND_ONLY: "true"} if table.append_only else {})


def table_properties(table: Table, storage: Storage) -> dict[str, str]:
    """Return the Delta properties of a new table: those of its declaration and those of its storage."""
    return {**declared_properties(table), **storage.table_properties}


@cache
def digest_of_tables() -> str:
    """Return a digest (hexadecimal SHA-256) of all declared tables: names, columns, partitions, properties."""
    declared = [
        {
            "name": table.name,
            "columns": list(declared_columns(table).values()),
            "partitions": table.partitions,
            "properties": declared_properties(table),
        }
        for _, table in sorted(TABLES.items())
    ]
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()


class Home:
    """A home at an address: a local folder, or `s3://bucket/prefix`; `storage` is the storage of all its tables."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = normalize(path)
        self.storage = storage_of(self.path)
        self._locks: list[tuple[int, HeldLock]] = []

    def __repr__(self) -> str:
        return f"Home({self.path!r})"

    def table(self, name: str) -> str:
        """Return the address of a table."""
        return f"{self.path}/tables/{name}"

    @property
    def answer_buckets(self) -> int:
        """Into how many buckets the answers of subscriptions with memory are divided; fixed when a home is created."""
        return int(json.loads(self.files.read(names.HOME_MARK))["answer_buckets"])

    @property
    def files(self) -> Files:
        """The small files of the home."""
        return self.storage.files(self.path)

    @property
    def work_folder(self) -> Path:
        """Folder for temporary copies: the home itself, or one of this node if the home has no local path."""
        local = self.storage.local_path(self.path)
        if local is not None:
            return local
        from pststream.kernels.compile import node_folder  # loads numba, and only an ingest comes here

        return node_folder() / "homes" / hashlib.sha256(self.path.encode()).hexdigest()[:32]

    def init(
        self,
        answer_buckets: int = Settings.answer_buckets,
        contents: Mapping[str, bytes] | None = None,
        group: str = "",
    ) -> bool:
        """Create the tables, the settings file and, last, the mark; return whether the home is new. May run again.

        contents: further files of a new home, by name
        group: that may read a new home in a folder

        Raises UsageError if the storage of the address cannot have a home.
        """
        files = self.files
        if files.exists(names.HOME_MARK):
            self.check()
            return False
        self.storage.prepare_home(self.path, group)
        has_all_new = self.create_tables(TABLES)
        if not files.exists(FILE):
            files.write(FILE, default_file().encode())
        for name, content in (contents or {}).items():
            files.write(name, content)
        # In a bucket the lock file is made beside new tables only, which have no fencing token. Beside older tables it
        # was lost, maybe while a process holds it: the next holder looks for the last token in all tables.
        if has_all_new or not self.storage.has_leases:
            files.create(_lock_name(""), b'{"number": 0}')
        self.write_mark({"tokenizer": TOKENIZER, "answer_buckets": answer_buckets}, FORMAT)
        return True

    def create_tables(self, wanted: Iterable[str]) -> bool:
        """Create the tables with these names, except existing ones; return whether none of them existed."""
        missing, are_new = self._missing_tables(), True
        for name in wanted:
            entry = first_entry(TABLES[name], table_properties(TABLES[name], self.storage))
            are_new &= name in missing and self.files.create(f"tables/{name}/_delta_log/{0:020}.json", entry)
        return are_new

    def _missing_tables(self) -> list[str]:
        """Return the names of tables that do not exist."""
        existing = self.files.tables("tables")
        return [name for name in TABLES if name not in existing]

    def write_mark(self, content: dict[str, Any], format: int) -> None:
        """Write the mark of the home: this content, the format, and the digest of the tables of this version."""
        mark = {"home_format": format, "tables": digest_of_tables()}
        self.files.write(names.HOME_MARK, (json.dumps(mark | content | mark, indent=1) + "\n").encode())

    def check(self) -> "Home":
        """Raise HomeError unless the home is complete and has the format, tables and tokenizer of this version.

        Return the home.
        """
        mark = self.read_mark()
        if mark["home_format"] < FORMAT:
            raise HomeError(
                self.path,
                f"was created by an older version (format {mark['home_format']}, this version writes {FORMAT})",
                f"run: pststream upgrade --home {self.path}",
            )
        if mark.get("tables") != digest_of_tables():
            raise HomeError(self.path, TOO_OLD)
        if mark.get("tokenizer") != TOKENIZER:
            raise HomeError(
                self.path,
                f"its tokenizer is {mark.get('tokenizer')}, that of this version is {TOKENIZER}",
                "use the version of pststream that created the home, or ingest its files into a new home",
            )
        missing = self._missing_tables()
        if missing:
            raise HomeError(
                self.path,
                f"is incomplete: it has no table {', '.join(missing)}",
                "restore it from a backup, or use another home",
            )
        return self

    def load_settings(self, **arguments: Any) -> Settings:
        """Load the settings, as `settings.load_settings` does.

        Raises HomeError instead of SettingError for a home of another version, which may have other settings.
        """
        try:
            return load_settings(self.path, **arguments)
        except SettingError:
            if self.files.exists(names.HOME_MARK):
                self.check()
            raise

    def read_mark(self) -> dict[str, Any]:
        """Read the mark of a home of this or an older format; raise HomeError if the home has none."""
        try:
            mark = json.loads(self.files.read(names.HOME_MARK))
        except FileNotFoundError:
            raise HomeError(
                self.path, "does not exist, or is incomplete", f"run: pststream init --home {self.path}"
            ) from None
        except (ValueError, UnicodeDecodeError):
            raise HomeError(
                self.path, f"{names.HOME_MARK} is not readable", f"restore {names.HOME_MARK} from a backup"
            ) from None
        if isinstance(mark, dict) and "home_format" not in mark:
            raise HomeError(self.path, TOO_OLD)
        if not isinstance(mark, dict) or not isinstance(mark["home_format"], int):
            raise HomeError(self.path, f"{names.HOME_MARK} names no format", f"restore {names.HOME_MARK} from a backup")
        if mark["home_format"] > FORMAT:
            raise HomeError(
                self.path,
                f"was created by a newer version (format {mark['home_format']}, this version knows {FORMAT})",
                "upgrade pststream, or use another home",
            )
        return mark

    @contextmanager
    def locked(self, scope: str = "", busy: type[HomeBusy] = HomeBusy, wait_seconds: float = 0.0) -> Iterator[None]:
        """Lock the home for writing; with a scope, lock only that. The lock ends with the process.

        Raises `busy` if another process still has the lock after `wait_seconds`. Without a scope, it first waits up to
        RUNNER_WAIT_SECONDS if a runner works on the home, because a runner frees the lock between batches. A lock
        belongs to its thread.
        """
        seconds = RUNNER_WAIT_SECONDS if not scope and self._has_other_runner() else wait_seconds
        try:
            with self._hold_lock(scope, seconds):
                yield
        except LockTaken as taken:
            raise busy(self.path, taken.holder) from None

    def has_lost_lock(self) -> bool:
        """Whether another process has taken over a lock of this thread."""
        return any(one.lost for one in self._own_locks())

    def check_locks(self) -> None:
        """Raise RetryableError if a lock of this thread was lost."""
        for one in self._own_locks():
            one.check()

    def transactions(self, table: DeltaTable, *transactions: Transaction) -> list[Transaction]:
        """Return the transactions that a commit to a just opened table carries: its own and the fencing tokens.

        Raises RetryableError if a lock of this thread was lost.
        """
        return locks.with_fencing_tokens(table, self._own_locks(), transactions)

    def _own_locks(self) -> list[HeldLock]:
        thread = threading.get_ident()
        return [one for owner, one in tuple(self._locks) if owner == thread]

    @contextmanager
    def _hold_lock(self, scope: str, seconds: float) -> Iterator[None]:
        name = _lock_name(scope)
        fenced = [self.table(table) for table in locks.fenced_tables(scope)]
        with_tokens = fenced or [self.table(table) for table in TABLES]

        def last_token() -> int:
            return locks.greatest_fencing_token(with_tokens, name)

        def fence(lock: HeldLock) -> None:
            locks.write_fencing_token(fenced, lock)

        lock: AbstractContextManager[HeldLock] = (
            locks.hold_lease(self.storage.conditional_files(self.path), name, seconds, last_token, fence)
            if self.storage.has_leases
            else locks.hold_file_lock(self.work_folder / name, seconds, last_token, fence)
        )
        with lock as one:
            entry = (threading.get_ident(), one)
            self._locks.append(entry)
            try:
                yield
            finally:
                self._locks.remove(entry)

    def _has_other_runner(self) -> bool:
        if self.storage.has_leases:
            return locks.has_other_holder(self.storage.conditional_files(self.path), _lock_name(RUNNER))
        return locks.holder_process(self.work_folder / _lock_name(RUNNER)) not in (None, os.getpid())


def _lock_name(scope: str) -> str:
    return f".lock{scope and '-'}{scope}"


STEPS: dict[int, Callable[[Home], None]] = {}
"""Format to the step that upgrades it to the next."""


def upgrade(home: Home) -> dict[str, Any]:
    """Upgrade a home; return its format before and after. Raises HomeError if it cannot be upgraded.

    A step is idempotent: after a crash it runs again, because the mark of the home is written after it. A step changes
    a table in one commit. There is no step yet, since format 1 is the first.
    """
    _formats_to_leave(home)
    with home.locked():
        formats = _formats_to_leave(home)
        for format in formats:
            STEPS[format](home)
            crash_point("upgrade.stepped")
            home.write_mark(home.read_mark(), format + 1)
    home.check()
    return {"format_before": formats.start, "format": FORMAT}


def _formats_to_leave(home: Home) -> range:
    """Return the formats that the home has to leave, none if it has the current one."""
    formats = range(home.read_mark()["home_format"], FORMAT)
    if not formats:
        home.check()
    if not STEPS.keys() >= set(formats):
        raise HomeError(home.path, TOO_OLD)
    return formats
