"""Folders of a home for scratch homes: tasks on other machines reach them, and they go when their command ends.

A folder that a killed command has left goes after KEPT_DAYS, or with the next erasure.
"""

import datetime as dt
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pststream.base.utc_times import utc_now
from pststream.state.home import Home

FOLDER = "scratch"
KEPT_DAYS = 7


@contextmanager
def scratch_folder(home: Home) -> Iterator[str]:
    """Yield the address of a new folder; remove it at the end of the block."""
    name = f"{utc_now():%Y%m%d%H%M%S}-{uuid.uuid4().hex[:8]}"
    try:
        yield f"{home.path}/{FOLDER}/{name}"
    finally:
        _remove(home, name)


def remove_left_folders(home: Home, days: int = KEPT_DAYS) -> None:
    """Remove the folders that are older than this, of commands that were killed."""
    oldest = f"{utc_now() - dt.timedelta(days=days):%Y%m%d%H%M%S}~"
    for name in {file.split("/")[1] for file in home.files.names(FOLDER)}:
        if name < oldest:
            _remove(home, name)


def _remove(home: Home, name: str) -> None:
    home.files.delete(home.files.names(f"{FOLDER}/{name}"))
