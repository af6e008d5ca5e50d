"""Note which files an ingest is about to read, so that a later one knows the files that were read when a process died.

The note counts the dead tries of each file by its content: readings during which the process ended, or an unexpected
error was raised. It is flushed to disk before the first file is opened.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pststream.base.errors import PstError
from pststream.state.home import Home

DEAD_TRIES = 2
"""After so many dead tries a file is read in a process of its own. One may be a kill of the process by somebody."""

MAX_FILES = 10_000
"""Files in the note at most besides those that are offered: files that nobody offers again would stay for ever."""

NOTE = "reading.json"


@contextmanager
def noted_reading(
    home: Home,
    hashes: Collection[str],
    note: str = NOTE,
    passing: tuple[type[BaseException], ...] = (PstError,),
) -> Iterator[dict[str, int]]:
    """Note in a block that files with these hashes are read; yield the dead tries of those with DEAD_TRIES or more.

    A dead try counts for all files that were read with it. A block that ends, or raises one of the errors `passing`,
    counts for none of them; files with DEAD_TRIES stay in the note, in case they are offered again.

    note: name of the note in the home
    """
    before = _read_note(home, note)
    suspects = {sha256: tries for sha256 in hashes if (tries := before.get(sha256, 0)) >= DEAD_TRIES}
    tried = {sha256: before.get(sha256, 0) + 1 for sha256 in hashes}
    rest = {sha256: tries for sha256, tries in before.items() if sha256 not in tried}
    for sha256 in list(rest)[:-MAX_FILES]:
        del rest[sha256]
    if tried:
        _write_note(home, note, rest | tried)
    try:
        yield suspects
    except passing:
        _write_note(home, note, rest | suspects)
        raise
    _write_note(home, note, rest | dict.fromkeys(suspects, DEAD_TRIES))


def _read_note(home: Home, note: str) -> dict[str, int]:
    """Return the dead tries by hash; none if there is no note, or none that can be read."""
    try:
        tries = json.loads(home.files.read(note))
        return {str(sha256): int(count) for sha256, count in tries.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def _write_note(home: Home, note: str, tries: dict[str, int]) -> None:
    """Replace the note, or remove it if it would be empty."""
    if tries:
        home.files.write(note, json.dumps(tries).encode())
    else:
        home.files.delete([note])
