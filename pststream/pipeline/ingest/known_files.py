"""Find out whether an input file was judged before: whether its rows are in the log, or it is in quarantine.

A content is judged once as rows of one kind in one format, of one owner, and of landed files in the folder of one
sender: nobody can let another's content be judged too early, or beside files of another volume. Two more things count.
A file that somebody names in a command is judged again with other options of the reader, or if nothing of it is left in
the log; a file that lands is not, so that a changed setting reads nothing again. And a file of requests without
`created_at` or `at`, which take effect when they are read, is judged at each path.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.errors import InputFileError
from pststream.input.input_files import format_of
from pststream.state import quarantine
from pststream.state.home import Home
from pststream.tables.ledgers import log_key, read_known_files
from pststream.tables.log_events import withdrawn_objects

LANDED = "landed"
"""Key in the options of a file: whether `run`, a watcher or a DAG found it."""

UNDATED = "undated"
"""Key in the options of a file of requests: whether a request of it has no time of its own."""

GIVEN_PATH = "given_path"
"""Key in the options of a copy: the path of the file that was copied."""


_DECIDING = ("columns", "constants", "timezone", "time_unit", "attributes", "types", "source")


class _Reading(NamedTuple):
    """What the options of a file say that decides on its rows."""

    format: str | None
    owner: str
    landed: bool
    undated: bool
    given_path: str | None
    other: str


def owner_of(options: str) -> str:
    """Return the owner of a file with these options."""
    return _reading_of(options).owner


@lru_cache(maxsize=4_096)
def _reading_of(options: str) -> _Reading:
    of_file: Mapping[str, Any] = json.loads(options)
    other = [of_file.get(name) for name in _DECIDING]
    named = (of_file.get(name) for name in ("format", "owner", LANDED, UNDATED, GIVEN_PATH))
    format, owner, landed, undated, given_path = named
    return _Reading(format, owner or "", bool(landed), bool(undated), given_path, json.dumps(other))


class _Judged(NamedTuple):
    """A file that was judged before."""

    path: str
    options: str
    file_seq: int | None = None
    accepted: int | None = None
    is_discarded: bool = False


class KnownFiles:
    """The files of one kind with one of these hashes that were judged before.

    again     whether files that somebody names are read in any case
    finished  files (file_seq) that are not read again, as the same call has finished them
    """

    def __init__(
        self,
        home: Home,
        kind: str,
        hashes: Collection[str],
        again: bool = False,
        finished: Collection[int] = (),
    ) -> None:
        self._home, self._kind, self._again, self._finished = home, kind, again, finished
        self._of: defaultdict[str, list[_Judged]] = defaultdict(list)
        rows = read_known_files(home, hashes)
        done = {row["file_seq"] for row in rows if row["accepted"] is not None}
        of_log = [row for row in rows if row["accepted"] is not None or row["file_seq"] not in done]
        for row in (*of_log, *quarantine.judged_files(home, hashes)):
            if row["kind"] == kind:
                in_log = row.get("file_seq"), row.get("accepted"), row.get("is_discarded", False)
                self._of[row["sha256"]].append(_Judged(row["path"], row["options"], *in_log))

    def find(self, path: str, sha256: str, options: str) -> str | None:
        """Return the path at which a file was judged before; None if it is new.

        options: JSON, as the ledger stores them
        """
        new = _reading_of(options)
        for judged in self._of.get(sha256, ()):
            old = _reading_of(judged.options)
            both_landed = new.landed and old.landed
            old_path = old.given_path or judged.path
            if (
                (new.owner == old.owner or not (self._kind == names.REQUESTS or both_landed))
                and (both_landed or new.other == old.other)
                and (not old.undated or old_path == path)
                and _format(path, new.format) == _format(old_path, old.format)
                and (new.landed or not self._is_read_again(judged))
            ):
                return old_path
        return None

    def _is_read_again(self, judged: _Judged) -> bool:
        return judged.file_seq not in self._finished and (self._again or self._has_left_nothing(judged))

    def _has_left_nothing(self, judged: _Judged) -> bool:
        """Whether no row of a file was accepted, all of its objects were withdrawn, or it was discarded."""
        if judged.file_seq is None or not judged.accepted:
            return judged.is_discarded or judged.accepted == 0
        if self._kind == names.REQUESTS:
            return False
        ends = log_key(judged.file_seq, 0), log_key(judged.file_seq + 1, 0)
        first, stop = np.searchsorted(self._withdrawn, ends)
        return bool(stop - first == judged.accepted)

    @cached_property
    def _withdrawn(self) -> np.ndarray:
        """The keys of the objects that were withdrawn, ascending: int64[n]."""
        withdrawn = withdrawn_objects(self._home)
        return withdrawn.keys if withdrawn else np.empty(0, np.int64)

    def are_undated(self, sha256: str) -> bool:
        """Whether the content has requests without a time, as far as it was judged."""
        return any(_reading_of(judged.options).undated for judged in self._of.get(sha256, ()))


def _format(path: str, format: str | None) -> str | None:
    try:
        return format_of(path, format)
    except InputFileError:  # a name without a known ending
        return None
