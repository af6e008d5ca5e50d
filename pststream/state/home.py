"""A home: where the tables are, its settings, its format, and the lock that keeps a second writer out."""

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction

from pststream.delta_tables import translate_delta_errors
from pststream.errors import HomeBusy, HomeError
from pststream.settings import FILE, default_file
from pststream.state.locking import fencing, file_lock, lease
from pststream.state.tables import TABLES, Table, has_bounds
from pststream.storage.contract import Files, Storage
from pststream.storage.registry import normalize, storage_of
from pststream.text.words import TOKENIZER

FORMAT = 6
"""Goes up when a table is added or changed, with a step in state/upgrade.py and a sample of the format before."""

OLDEST = 2
"""Homes of this format and later can be upgraded."""

MARK = "home.json"

RUNNER = "run"
"""The part that `pststream run` holds all the time, with `--watch` too: it keeps a second runner out, but no upkeep."""

TURN_SECONDS = 60.0

LOG_KEPT = "delta.logRetentionDuration"
BOUNDED_COLUMNS = "delta.dataSkippingStatsColumns"


def log_kept(table: Table) -> str:
    """How long the entries of a table's log are kept.

    Delta lists the folder of a log whenever it opens a table: 1.4 us an entry, and a home that is always on makes some
    50,000 a day. A ledger is opened a dozen times a batch, and nobody asks for an older version of it; what grows with
    the data is opened once to four times, and others may follow it as a stream.
    """
    return "interval 1 hours" if table.writer == "control" else "interval 1 days"


def table_properties(table: Table, address: str) -> dict[str, str]:
    """Delta properties of a new table.

    Where `FileWriter` writes the files, the property BOUNDED_COLUMNS lists the columns that it keeps bounds of: readers
    must not expect bounds of others. With leases it writes the compacted files of control tables too.
    """
    storage = storage_of(address)
    found: dict[str, str] = {LOG_KEPT: log_kept(table), **storage.table_properties}
    if table.writer != "control" or storage.has_leases:
        columns = [c.name for c in table.columns if c.name not in table.partitions and has_bounds(c.type)]
        found[BOUNDED_COLUMNS] = ",".join(columns)
    return found


class Home:
    """Paths of a home, and whether it can be used. `path`: a folder's, or `s3://bucket/prefix`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = normalize(path)
        self._leases: list[tuple[int, lease.Lease]] = []

    def __repr__(self) -> str:
        return f"Home({self.path!r})"

    def table(self, name: str) -> str:
        """Path of a table."""
        return f"{self.path}/tables/{name}"

    @property
    def storage(self) -> Storage:
        """The storage that it is in."""
        return storage_of(self.path)

    @property
    def files(self) -> Files:
        """Its small files."""
        return self.storage.files(self.path)

    @property
    def work(self) -> Path:
        """Folder for temporary copies: the home itself, or one of this node if the home has no local path."""
        local = self.storage.local_path(self.path)
        if local is not None:
            return local
        from pststream.kernels.compile import node_folder  # loads numba, and only an ingest comes here

        return node_folder() / "homes" / hashlib.sha256(self.path.encode()).hexdigest()[:32]

    def init(self) -> bool:
        """Make the tables, the settings file and, last, the mark; safe to run again. True if it was new."""
        files = self.files
        if files.exists(MARK):
            self.check()
            return False
        self.make_tables(TABLES)
        if not files.exists(FILE):
            files.write(FILE, default_file().encode())
        self.mark({"format": FORMAT, "tokenizer": TOKENIZER})
        return True

    def make_tables(self, names: Iterable[str]) -> None:
        """Make tables, those that are not there."""
        missing = self._missing()
        for table in (TABLES[name] for name in names if name in missing):
            address = self.table(table.name)
            with translate_delta_errors(address):
                location = self.storage.delta_location(address)
                DeltaTable.create(
                    location.uri,
                    table.schema,
                    partition_by=list(table.partitions) or None,
                    description=table.meaning,
                    configuration=table_properties(table, address),
                    storage_options=location.options,
                )

    def _missing(self) -> list[str]:
        """Tables that do not exist."""
        existing = self.files.tables("tables")
        return [name for name in TABLES if name not in existing]

    def mark(self, content: dict[str, Any]) -> None:
        """Write the mark, whole or not at all."""
        self.files.write(MARK, (json.dumps(content, indent=1) + "\n").encode())

    def check(self) -> "Home":
        """Raise HomeError unless this is a whole home of this format and tokenizer."""
        try:
            found = json.loads(self.files.read(MARK))
        except FileNotFoundError:
            raise HomeError(
                self.path, "is not there, or half-written", f"run: pststream init --home {self.path}"
            ) from None
        except (ValueError, UnicodeDecodeError):
            raise HomeError(self.path, f"{MARK} is not readable", f"restore {MARK} from a backup") from None
        if not isinstance(found, dict) or not isinstance(found.get("format"), int):
            raise HomeError(self.path, f"{MARK} names no format", f"restore {MARK} from a backup")
        if found["format"] > FORMAT:
            raise HomeError(
                self.path,
                f"was made by a newer version (format {found['format']}, this one knows {FORMAT})",
                "upgrade pststream, or use another home",
            )
        if found["format"] < FORMAT:
            raise HomeError(
                self.path,
                f"was made by an older version (format {found['format']}, this one writes {FORMAT})",
                f"run: pststream upgrade --home {self.path}"
                if found["format"] >= OLDEST
                else "ingest its files into a new home",
            )
        if found.get("tokenizer") != TOKENIZER:
            raise HomeError(
                self.path,
                f"its words were made by {found.get('tokenizer')}, this version makes them by {TOKENIZER}",
                "use the Python that made the home, or ingest its files into a new home",
            )
        missing = self._missing()
        if missing:
            raise HomeError(
                self.path,
                f"is half-written: no table {', '.join(missing)}",
                "restore it from a backup, or use another home",
            )
        return self

    @contextmanager
    def locked(self, part: str = "", busy: type[HomeBusy] = HomeBusy) -> Iterator[None]:
        """Hold the home for writing, or one part of it; the lock goes with the process, however it ends.

        Raises `busy` if it is taken: at once, but beside a runner the home is waited for TURN_SECONDS, as a runner lets
        go of it between batches. In a bucket the lock is a lease (lease.py) of the thread that holds it.
        """
        seconds = TURN_SECONDS if not part and self._beside_a_runner() else 0.0
        try:
            if self.storage.has_leases:
                with self._leased(part, seconds):
                    yield
            else:
                with file_lock.locked(self.work / _lock(part), seconds):
                    yield
        except file_lock.Taken as taken:
            raise busy(self.path, taken.holder) from None

    def has_lost_a_lock(self) -> bool:
        """Whether another has taken over a lock that this thread took: in a bucket that can be."""
        return any(held.lost for owner, held in tuple(self._leases) if owner == threading.get_ident())

    def commit_properties(self, table: DeltaTable, *transactions: Transaction) -> CommitProperties:
        """What each commit to a table, as it was read just now, has to carry; RetryableError if a lease was lost."""
        thread = threading.get_ident()
        return fencing.properties(table, [held for owner, held in tuple(self._leases) if owner == thread], transactions)

    @contextmanager
    def _leased(self, part: str, seconds: float) -> Iterator[None]:
        files, name = self.storage.conditional_files(self.path), _lock(part)
        guarded = fencing.guarded(part)
        tables, carry = ([self.table(table) for table in some] for some in (guarded, guarded or TABLES))
        with lease.leased(
            files, name, seconds, lambda: fencing.greatest_number(carry, name), lambda one: fencing.fence(tables, one)
        ) as one:
            held = (threading.get_ident(), one)
            self._leases.append(held)
            try:
                yield
            finally:
                self._leases.remove(held)

    def _beside_a_runner(self) -> bool:
        if self.storage.has_leases:
            return lease.held_by_another(self.storage.conditional_files(self.path), _lock(RUNNER))
        return file_lock.holder(self.work / _lock(RUNNER)) not in (None, os.getpid())


def _lock(part: str) -> str:
    return f".lock{part and '-'}{part}"
