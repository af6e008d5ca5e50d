"""A file stays mapped until another file is at its path, it is cut, or it is gone."""

import os
from pathlib import Path

import numpy as np

from pststream.storage.array_cache import KeptMappings


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
