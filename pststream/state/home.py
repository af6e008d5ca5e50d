"""A home: the folder of the tables, its settings, its format, and the lock that keeps a second writer out."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from pststream.errors import HomeBusy, HomeError
from pststream.settings import FILE, default_file
from pststream.state import locks
from pststream.state.tables import TABLES, Table, has_bounds
from pststream.text.words import TOKENIZER

FORMAT = 5
"""Goes up when a table is added or changed, with a step in state/upgrade.py and a sample of the format before."""

OLDEST = 2
"""Homes of this format and later can be upgraded."""

MARK = "home.json"

RUNNER = "run"
"""The part that `pststream run` holds all the time, with `--watch` too: it keeps a second runner out, but no upkeep."""

TURN_SECONDS = 60.0


LOG_KEPT = "interval 7 days"
"""Of tables that change in each batch: Delta goes through all entries of a log when it opens a table."""


def _configuration(table: Table) -> dict[str, str | None]:
    """Of large tables the columns that tasks keep bounds of; readers must not ask the log for those of others."""
    if table.writer == "control":
        return {"delta.logRetentionDuration": LOG_KEPT}
    columns = [c.name for c in table.columns if c.name not in table.partitions and has_bounds(c.type)]
    return {"delta.dataSkippingStatsColumns": ",".join(columns)}


class Home:
    """Paths of a home, and whether it can be used."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(Path(path).absolute())

    def __repr__(self) -> str:
        return f"Home({self.path!r})"

    def table(self, name: str) -> str:
        """Path of a table."""
        return f"{self.path}/tables/{name}"

    def init(self) -> bool:
        """Make the tables, the settings file and, last, the mark; safe to run again. True if it was new."""
        if (Path(self.path) / MARK).exists():
            self.check()
            return False
        root = Path(self.path)
        root.mkdir(parents=True, exist_ok=True)
        for table in TABLES.values():
            self.make_table(table)
        if not (root / FILE).exists():
            (root / FILE).write_text(default_file(), "utf-8")
        self.mark({"format": FORMAT, "tokenizer": TOKENIZER})
        return True

    def make_table(self, table: Table) -> None:
        """Make a table that is not there."""
        if not DeltaTable.is_deltatable(self.table(table.name)):
            DeltaTable.create(
                self.table(table.name),
                table.schema,
                partition_by=list(table.partitions) or None,
                description=table.meaning,
                configuration=_configuration(table),
            )

    def mark(self, content: dict[str, Any]) -> None:
        """Write the mark, whole or not at all."""
        writing = Path(self.path) / (MARK + ".writing")
        writing.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        os.replace(writing, Path(self.path) / MARK)

    def check(self) -> "Home":
        """Raise HomeError unless this is a whole home of this format and tokenizer."""
        try:
            found = json.loads((Path(self.path) / MARK).read_text("utf-8"))
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
        missing = [name for name in TABLES if not DeltaTable.is_deltatable(self.table(name))]
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
        go of it between batches.
        """
        seconds = TURN_SECONDS if not part and self._beside_a_runner() else 0.0
        try:
            with locks.locked(self._lock(part), seconds):
                yield
        except locks.Taken as taken:
            raise busy(self.path, taken.holder) from None

    def _beside_a_runner(self) -> bool:
        return locks.holder(self._lock(RUNNER)) not in (None, os.getpid())

    def _lock(self, part: str) -> Path:
        return Path(self.path) / f".lock{part and '-'}{part}"
