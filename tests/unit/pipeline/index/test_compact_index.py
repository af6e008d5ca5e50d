"""Small files of the index are joined with files of similar size, so that a row is seldom written again."""

import random

import pytest

from pststream.pipeline.index.compact_index import choose_similar
from pststream.state.data_files import DataFile

MOST_FILES = 8


def file(number: int, rows: int) -> DataFile:
    return DataFile(f"{number:04}", rows, rows)


def test_files_that_no_smaller_ones_resemble_stay() -> None:
    assert choose_similar([file(0, 100)]) == []
    assert choose_similar([file(0, 9), file(1, 100)]) == []
    assert choose_similar([file(0, 1_000), file(1, 40), file(2, 9), file(3, 10)]) == [
        file(2, 9),
        file(3, 10),
        file(1, 40),
    ]
    assert choose_similar([file(0, 100), file(1, 100)]) == [file(0, 100), file(1, 100)]


@pytest.mark.parametrize("stored", [0, 5_000, 200_000])
def test_rows_are_seldom_written_again_and_files_stay_few(stored: int) -> None:
    rnd, files, added, written = random.Random(4), [file(0, stored)] if stored else [], 0, 0
    for number in range(1, 1_000):
        files.append(file(number, rnd.randrange(10, 40)))
        added += files[-1].rows
        if len(files) > MOST_FILES and (joined := choose_similar(files)):
            rows = sum(one.rows for one in joined)
            files = [one for one in files if one not in joined] + [file(number + 1_000, rows)]
            written += rows
        assert len(files) <= MOST_FILES
    assert sum(one.rows for one in files) == stored + added
    assert written < 15 * added
