"""Keep the words of many rows in a file, and the place of each as a number that can be sorted with the row."""

from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NO_WORD = -1


class StoredWords:
    """Words in a new file, which is open until the end of the `with` statement; a word has no line end."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb+")  # noqa: SIM115
        self._size = 0

    def __enter__(self) -> "StoredWords":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, words: pa.Array) -> np.ndarray:
        """Write the distinct ones of some words, strings or null; return the place of each row: int64[n]."""
        encoded = words.dictionary_encode()
        distinct = encoded.dictionary.cast(pa.large_binary())
        lengths = pc.binary_length(distinct).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        places = np.append(self._size + np.cumsum(lengths) - lengths, NO_WORD)
        self._file.seek(self._size)
        self._file.writelines(word + b"\n" for word in distinct.to_pylist())
        self._size += int(lengths.sum())
        index: np.ndarray = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        return places[index]

    def read(self, places: np.ndarray) -> list[str | None]:
        """Read the words at some places (int64[n]); None for NO_WORD."""
        return [None if place == NO_WORD else self._word_at(place) for place in places.tolist()]

    def _word_at(self, place: int) -> str:
        self._file.seek(place)
        return self._file.readline()[:-1].decode()
