"""Cut a round, the new landed files that one ingest finds, into groups; each group is a transaction.

The objects of a round are all judged by the watermark before it, so that the order in which its files are read makes
none of them late. Files that a command names are no round: each is judged by the files before it. The ledger says with
each file which watermark that was. A round that was interrupted between two groups is continued by the next ingest: a
mark in the home says that it is open.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pststream.base import names
from pststream.base.utc_times import micros_of
from pststream.input.input_files import is_compressed
from pststream.pipeline.ingest.fetch_objects import DISK_FACTOR, GROUP_BYTES, OfferedFile, split_into_groups
from pststream.state.home import Home
from pststream.storage.registry import local_path
from pststream.tables.ledgers import JUDGED_BY, ROUND_GOES_ON, Ledger, judged_by

OPEN_ROUND = "open_round"
"""File of the home that is there while a round of several groups is ingested."""

SMALL_BYTES = 8 << 20
EXPECTED_EXPANSION = 20
"""Landed objects in files of up to SMALL_BYTES are read first; a compressed file counts as so many times as large."""


@dataclass
class Round:
    """A round of landed files of objects; the home is locked.

    is_round: whether the files are landed objects
    continues: whether the round before was interrupted, so that this one has its watermark
    judged_by: the options of the ledger that have the watermark, once a group was ingested
    """

    home: Home
    is_round: bool
    continues: bool
    is_marked: bool
    judged_by: dict[str, Any] | None = None

    def options(self, ledger: Ledger, goes_on: bool) -> dict[str, Any]:
        """Return the options of the ledger for the next group of files; `goes_on`: more groups follow.

        ledger: as it is before this group
        """
        if not self.is_round:
            return {}
        if goes_on and not self.is_marked:
            self.home.files.write(OPEN_ROUND, b"")
            self.is_marked = True
        if self.judged_by is None:
            open_round = ledger.open_round() if self.continues else None
            self.judged_by = {JUDGED_BY: micros_of(judged_by(open_round) if open_round else ledger.watermark())}
        return {**self.judged_by, ROUND_GOES_ON: goes_on}


@contextmanager
def round_of_groups(home: Home, is_round: bool) -> Iterator[Round]:
    """Begin a round, or continue the one that was interrupted; end it at the end of the block."""
    is_open = is_round and home.files.exists(OPEN_ROUND)
    round = Round(home, is_round, is_open, is_open)
    yield round
    if round.is_marked:
        home.files.delete([OPEN_ROUND])


def cut_into_groups(round: Round, files: Sequence[OfferedFile]) -> list[list[OfferedFile]]:
    """Cut files into groups that the disk has room for; of objects, the groups of small files come first."""
    folder = local_path(round.home.path)
    free = shutil.disk_usage(folder).free if folder is not None else names.MAX_INT64
    max_bytes = min(GROUP_BYTES, free // DISK_FACTOR)
    if not round.is_round:
        return split_into_groups(files, max_bytes, _expected_bytes)
    small = [one for one in files if _expected_bytes(one) <= SMALL_BYTES]
    large = [one for one in files if _expected_bytes(one) > SMALL_BYTES]
    return [group for part in (small, large) for group in split_into_groups(part, max_bytes, _expected_bytes)]


def expected_bytes(path: str, bytes: int) -> int:
    """Return how large a file may be once it is expanded."""
    return bytes * (EXPECTED_EXPANSION if is_compressed(path) else 1)


def _expected_bytes(file: OfferedFile) -> int:
    return expected_bytes(file.path, file.bytes)


_OVERSIZED_NOTE = "oversized.json"
MAX_NOTED = 1_000
"""Files in the note of oversized files at most."""


def count_oversized(home: Home, sha256: str) -> int:
    """Count an ingest in which the rows of this file did not fit on the disk; return how many there were."""
    try:
        tries: dict[str, int] = json.loads(home.files.read(_OVERSIZED_NOTE))
    except (FileNotFoundError, ValueError):
        tries = {}
    count = int(tries.pop(sha256, 0)) + 1
    latest = {**tries, sha256: count}
    for one in list(latest)[:-MAX_NOTED]:
        del latest[one]
    home.files.write(_OVERSIZED_NOTE, json.dumps(latest).encode())
    return count
