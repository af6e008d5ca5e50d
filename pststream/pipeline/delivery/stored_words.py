"""Keep the words of many rows in a file, and the place of each as a number that can be sorted with the row."""

from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NO_WORD = -1


class StoredWords:
    """Words in a file, which is made with the first word; a word has no line end.

    Words must all be added before the first is read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0

    def add(self, words: pa.Array) -> np.ndarray:
        """Write the distinct ones of some words, strings or null; return the place of each row: int64[n]."""
        encoded = words.dictionary_encode()
        distinct = encoded.dictionary.cast(pa.large_binary())
        lengths = pc.binary_length(distinct).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        places = np.append(self._size + np.cumsum(lengths) - lengths, NO_WORD)
        if len(distinct):
            with open(self._path, "ab") as file:
                file.write(b"\n".join(distinct.to_pylist()) + b"\n")
            self._size += int(lengths.sum())
        index: np.ndarray = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        return places[index]

    def read(self, places: np.ndarray) -> list[str | None]:
        """Read the words at some places (int64[n]); None for NO_WORD."""
        if not (places != NO_WORD).any():
            return [None] * len(places)
        with open(self._path, "rb") as file:
            return [None if place == NO_WORD else _word_at(file, place) for place in places.tolist()]


def _word_at(file: BinaryIO, place: int) -> str:
    file.seek(place)
    return file.readline()[:-1].decode()
