"""Words in a file are read back by their places."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pststream.pipeline.delivery.message_rows import StoredWords


@pytest.mark.parametrize("seed", range(5))
def test_words_of_many_parts(tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    known = ["a", "früher", "x" * 70_000, "日本", None, ""]
    drawn = [[rnd.choice(known) for _ in range(rnd.randrange(30))] for _ in range(20)]
    with StoredWords(tmp_path / "words") as words:
        places = np.concatenate([words.add(pa.array(part, pa.string())) for part in drawn])
        order = np.array(rnd.sample(range(len(places)), len(places)))
        flat = [word for part in drawn for word in part]
        assert words.read(places[order]) == [flat[n] for n in order.tolist()]
        assert words.read(words.add(pa.array(["later", "a"]))) == ["later", "a"], "words may follow after a read"
    distinct = sum(len(set(part) - {None}) for part in drawn)
    assert (tmp_path / "words").read_bytes().count(b"\n") == distinct + 2, "a word is written once for each part"


def test_no_words(tmp_path: Path) -> None:
    with StoredWords(tmp_path / "words") as words:
        assert words.read(words.add(pa.array([None, None], pa.string()))) == [None, None]
        assert words.read(np.empty(0, np.int64)) == []
