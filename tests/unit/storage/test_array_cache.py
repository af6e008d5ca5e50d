"""The cache of arrays: a file stays mapped while it is the same; without room on the disk older entries go."""

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from pststream.base.errors import RetryableError
from pststream.storage import array_cache
from pststream.storage.array_cache import ArrayCache, KeptMappings


def test_a_mapping_is_kept_while_the_file_is_the_same(tmp_path: Path) -> None:
    kept, path = KeptMappings[np.ndarray](), tmp_path / "one"

    def get() -> np.ndarray:
        return kept.get(path, path.stat(), lambda: np.memmap(path, np.uint8, "r+"))

    path.write_bytes(b"first")
    mapped = get()
    mapped[0] = ord("F")
    assert get() is mapped and path.read_bytes() == b"First"
    (tmp_path / "two").write_bytes(b"other")
    os.replace(tmp_path / "two", path)
    replaced = get()
    assert bytes(replaced) == b"other" and bytes(mapped) == b"First"
    os.truncate(path, 2)
    assert bytes(get()) == b"ot"


def test_a_mapping_goes_with_its_file(tmp_path: Path) -> None:
    kept, freed = KeptMappings[list[str]](), tmp_path / "gone"
    for path in (freed, tmp_path / "other"):
        path.write_bytes(b"1")
    mapped = kept.get(freed, freed.stat(), lambda: ["gone"])
    status = freed.stat()
    freed.unlink()
    kept.get(tmp_path / "other", (tmp_path / "other").stat(), lambda: ["other"])
    assert kept.get(freed, status, lambda: ["again"]) is not mapped


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
