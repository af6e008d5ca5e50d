"""A disk without room costs older entries of the cache, and then a clear error; the cache is as before after it."""

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from pststream.base.errors import RetryableError
from pststream.storage import array_cache
from pststream.storage.array_cache import ArrayCache


def numbers(count: int) -> dict[str, np.ndarray]:
    return {"numbers": np.arange(count), "none": np.empty((0, 3), np.float32), "flags": np.ones(3, bool)}


def test_older_entries_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, write, tried = ArrayCache(str(tmp_path), 1 << 30, "x"), array_cache.write_arrays, []
    for name in ("old", "newer"):
        cache.arrays((name,), lambda: numbers(1_000))
    os.utime(cache._entry(("old",)), (1, 1))

    def write_second(path: Path, arrays: dict[str, np.ndarray]) -> None:
        tried.append(path)
        if len(tried) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, arrays)

    monkeypatch.setattr(array_cache, "write_arrays", write_second)
    kept = cache.arrays(("new",), lambda: numbers(500))
    assert {name: array.tolist() for name, array in kept.items()} == {
        name: array.tolist() for name, array in numbers(500).items()
    }
    assert [cache._entry((name,)).exists() for name in ("old", "newer", "new")] == [False, True, True]


def test_an_entry_that_has_no_room_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    cache = ArrayCache(str(tmp_path), 1 << 30, "x")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(RetryableError, match="no room for 8,000,003 bytes of segments: File too large") as error:
            cache.arrays(("large",), lambda: numbers(1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cache_dir" in error.value.hint and str(tmp_path) in str(error.value)
    assert list(cache.folder.iterdir()) == [] and not cache.has(("large",))
    assert len(cache.arrays(("large",), lambda: numbers(1_000_000))["numbers"]) == 1_000_000


def test_other_mapped_entries(tmp_path: Path) -> None:
    cache = ArrayCache(str(tmp_path), 1 << 30, "x")
    for paths in (("/t/a", "/t/b"), ("/t/b",), ("/u/c",)):
        cache.arrays(paths, lambda: numbers(10))
    assert cache.mapped_others("/t/", {"/t/a", "/t/b"}) == []
    assert cache.mapped_others("/t/", {"/t/b"}) == [("/t/a", "/t/b")]
    assert cache.mapped_others("/t/", ()) == [("/t/a", "/t/b"), ("/t/b",)]
