"""Open the segments of the stored objects of a home, and find the greatest key of a version of the table."""

from functools import lru_cache

from pststream import names
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.stored_objects.object_cache import ObjectCache, ObjectFile, group_files
from pststream.stored_objects.object_snapshot import ObjectSnapshot


def open_snapshot(home: Home, settings: Settings) -> ObjectSnapshot:
    """Return the segments of all stored objects; those that the node does not have are built first."""
    files = list_data_files(home, names.OBJECTS)
    stored = [
        ObjectFile(address, rows, file.low.get("object_key", -1))
        for file, (address, rows) in zip(files, addresses_and_rows(home, names.OBJECTS, files))
    ]
    cache = _object_cache(settings.cache_dir, settings.cache_bytes)
    return ObjectSnapshot([cache.segment(paths) for paths in group_files(stored)])


def greatest_key(home: Home, version: int) -> int:
    """Return the greatest key of a version of `objects`, -1 if it is empty: objects are only added.

    Raises UsageError for a version that the log of the table does not have.
    """
    files = list_data_files(home, names.OBJECTS, version)
    return max((file.high["object_key"] for file in files), default=-1)


@lru_cache(maxsize=4)
def _object_cache(folder: str, max_bytes: int) -> ObjectCache:
    return ObjectCache(folder, max_bytes)
