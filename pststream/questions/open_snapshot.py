"""Open the segments of the stored objects of a home, and find the greatest key of a version of the table."""

from functools import lru_cache

from pststream import names
from pststream.ledgers.term_statistics import statistics_in_force
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.stored_objects.object_cache import ObjectCache, ObjectFile, group_files
from pststream.stored_objects.object_snapshot import ObjectSnapshot
from pststream.stored_objects.term_weights import EQUAL_WEIGHTS, TermWeights


def open_snapshot(home: Home, settings: Settings) -> ObjectSnapshot:
    """Return the segments of all stored objects; those that the node does not have are built first."""
    files = list_data_files(home, names.OBJECTS)
    stored = [
        ObjectFile(address, rows, file.low.get("object_key", -1))
        for file, (address, rows) in zip(files, addresses_and_rows(home, names.OBJECTS, files))
    ]
    cache, groups = _object_cache(settings.cache_dir, settings.cache_bytes), group_files(stored)
    return ObjectSnapshot([cache.segment(paths) for paths in groups], groups, weights_in_force(home, settings))


def weights_in_force(home: Home, settings: Settings) -> TermWeights:
    """Return the weights of words by the version of the term statistics that is in force now."""
    version = statistics_in_force(home)
    if not version.version:
        return EQUAL_WEIGHTS
    return TermWeights(
        version.version, version.objects, version.terms, statistics_files(home, version.version),
        settings.cache_dir, settings.cache_bytes,
    )  # fmt: skip


def statistics_files(home: Home, version: int) -> tuple[str, ...]:
    """Return the addresses of the data files that may have counts of a version of the term statistics."""
    files = list_data_files(home, names.TERM_STATISTICS)
    wanted = [file for file in files if file.may_contain("statistics_version", version, version)]
    return tuple(address for address, _ in addresses_and_rows(home, names.TERM_STATISTICS, wanted))


def greatest_key(home: Home, version: int) -> int:
    """Return the greatest key of a version of `objects`, -1 if it is empty: objects are only added.

    Raises UsageError for a version that the log of the table does not have.
    """
    files = list_data_files(home, names.OBJECTS, version)
    return max((file.high["object_key"] for file in files), default=-1)


@lru_cache(maxsize=4)
def _object_cache(folder: str, max_bytes: int) -> ObjectCache:
    return ObjectCache(folder, max_bytes)
