"""Note which files an ingest is about to read, so that a later one knows the files that were read when a process died.

The note counts the dead tries of each file by its content: readings that ended with the process, or with an error that
nobody foresaw. It is flushed to disk before the first file is opened.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pststream.errors import PstError
from pststream.state.home import Home

DEAD_TRIES = 2
"""After so many dead tries a file is read in a process of its own. One may be a kill of the process by somebody."""

MAX_FILES = 10_000
"""Files in the note at most besides those that are offered: files that nobody offers again would stay for ever."""

NOTE = "reading.json"


@contextmanager
def noted_reading(home: Home, hashes: Collection[str]) -> Iterator[set[str]]:
    """Note in a block that files with these hashes are read; yield the hashes of those with DEAD_TRIES dead tries.

    A dead try counts for all other files that were read with it. A block that ends, or raises a PstError, counts for
    none of them; files with DEAD_TRIES stay in the note, in case that they are offered again.
    """
    before = _read_note(home)
    suspects = {sha256 for sha256 in hashes if before.get(sha256, 0) >= DEAD_TRIES}
    tried = {sha256: before.get(sha256, 0) + 1 for sha256 in hashes if sha256 not in suspects}
    rest = {sha256: tries for sha256, tries in before.items() if sha256 not in tried}
    for sha256 in [sha256 for sha256 in rest if sha256 not in suspects][:-MAX_FILES]:
        del rest[sha256]
    if tried:
        _write_note(home, rest | tried)
    try:
        yield suspects
    except PstError:
        _write_note(home, rest)
        raise
    _write_note(home, rest)


def _read_note(home: Home) -> dict[str, int]:
    """Return the dead tries by hash; none if there is no note, or none that can be read."""
    try:
        tries = json.loads(home.files.read(NOTE))
        return {str(sha256): int(count) for sha256, count in tries.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def _write_note(home: Home, tries: dict[str, int]) -> None:
    """Replace the note, or remove it if it would be empty."""
    if tries:
        home.files.write(NOTE, json.dumps(tries).encode())
    else:
        home.files.delete([NOTE])
