"""Open the segments of the stored objects of a home, and find the greatest key of a version of the table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pststream.base import names
from pststream.search.object_cache import ObjectCache, ObjectFile, group_files
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.reported_terms import reports_cache
from pststream.search.stored_conditions import attribute_cache
from pststream.search.term_weights import TermWeights
from pststream.search.verified_questions import texts_cache
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.storage.array_cache import Paths
from pststream.tables.log_events import statistics_in_force


@dataclass(frozen=True)
class StoredSegments:
    """The segments of all stored objects of a home, of which any process can open some; travels pickled.

    groups      data files of each segment
    rows        objects of each segment
    weights     of words
    cache_dir   folder of the node's cache, empty for the node's own choice
    """

    home: str
    groups: tuple[Paths, ...]
    rows: tuple[int, ...]
    weights: TermWeights
    cache_dir: str
    cache_bytes: int

    def open(self, numbers: Sequence[int] | None = None) -> ObjectSnapshot:
        """Return these segments, None: all; those that the node does not have are built first."""
        chosen = self.groups if numbers is None else [self.groups[number] for number in numbers]
        try:
            opened = [one for paths in chosen for one in self._cache.segments(paths)]
        finally:
            self._discard_unlisted(self._cache.take_built())
        return ObjectSnapshot([segment for _, segment in opened], [paths for paths, _ in opened], self.weights)

    def _discard_unlisted(self, built: Collection[Paths]) -> None:
        """Discard segments of files that are no longer listed: rows may have been erased, and the cache cleared, since
        the files were listed.
        """
        if built:
            home = Home(self.home)
            listed = dict(addresses_and_rows(home, names.OBJECTS, list_data_files(home, names.OBJECTS)))
            for paths in built:
                if not listed.keys() >= set(paths):
                    self._cache.discard(paths)

    def missing(self) -> list[int]:
        """Return the numbers of the segments that this node does not have."""
        return [number for number, paths in enumerate(self.groups) if not self._cache.has(paths)]

    @property
    def _cache(self) -> ObjectCache:
        return object_cache(self.cache_dir, self.cache_bytes)


def list_segments(home: Home, cache_dir: str, cache_bytes: int, up_to: int = names.MAX_INT64) -> StoredSegments:
    """Return the segments of all objects that are stored now; stop mapping those of files that were removed.

    up_to: position in the log at which the version of the term statistics is in force
    """
    files = list_data_files(home, names.OBJECTS)
    addresses = dict(addresses_and_rows(home, names.OBJECTS, files))
    _discard_removed(home, object_cache(cache_dir, cache_bytes), addresses)
    places = zip(files, addresses.items())
    stored = [ObjectFile(*place, file.low.get("object_key", -1), file.bytes) for file, place in places]
    groups = group_files(stored)
    rows = tuple(sum(addresses[path] for path in paths) for paths in groups)
    weights = weights_in_force(home, cache_dir, cache_bytes, up_to)
    return StoredSegments(home.path, tuple(groups), rows, weights, cache_dir, cache_bytes)


def _discard_removed(home: Home, cache: ObjectCache, addresses: Collection[str]) -> None:
    """Discard the mapped segments of files that were removed.

    The addresses were listed before this looks at the cache, and another thread may have built a segment of newer files
    meanwhile. So the files are listed again if there are others.
    """
    folder = f"{home.table(names.OBJECTS)}/"
    if cache.mapped_others(folder, addresses):
        mapped = cache.mapped_others(folder, ())
        listed = dict(addresses_and_rows(home, names.OBJECTS, list_data_files(home, names.OBJECTS)))
        for paths in set(mapped).intersection(cache.mapped_others(folder, listed)):
            cache.discard(paths)


def open_snapshot(home: Home, settings: Settings) -> ObjectSnapshot:
    """Return the segments of all stored objects; those that the node does not have are built first."""
    return list_segments(home, settings.cache_dir, settings.cache_bytes).open()


def discard_segments(settings: Settings, groups: Collection[Paths]) -> None:
    """Delete the segments of these groups of data files, and the attributes and texts of their objects, from the node's
    cache.
    """
    for paths in groups:
        for cache in (object_cache, attribute_cache, texts_cache, reports_cache):
            cache(settings.cache_dir, settings.cache_bytes).discard(paths)


def weights_in_force(home: Home, cache_dir: str, cache_bytes: int, up_to: int) -> TermWeights:
    """Return the weights of words by the version of the term statistics that is in force at a position of the log.

    If that version is no longer stored, the one that is in force now weighs them.
    """
    version = statistics_in_force(home, up_to)
    files = statistics_files(home, version.version) if version.version else ()
    if version.version and not files:
        version = statistics_in_force(home)
        files = statistics_files(home, version.version)
    return TermWeights(version.version, version.objects, version.terms, files, cache_dir, cache_bytes)


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
def object_cache(folder: str, max_bytes: int) -> ObjectCache:
    """Return the process's cache of segments of objects."""
    return ObjectCache(folder, max_bytes)
