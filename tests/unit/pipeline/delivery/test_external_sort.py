"""Rows sorted in memory and on disk come as NumPy would sort them all at once."""

from pathlib import Path

import numpy as np
import pytest

from pststream.pipeline.delivery.message_rows import SortedRows


@pytest.mark.parametrize("run_rows", [1, 7, 100, 10_000])
@pytest.mark.parametrize("seed", range(5))
def test_order_and_blocks(tmp_path: Path, seed: int, run_rows: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-5, 40, (3, 500))
    sorter = SortedRows(3, tmp_path, run_rows)
    for part in np.array_split(rows, 13, axis=1):
        sorter.add(part)
    blocks = list(sorter.sorted_rows())
    assert np.array_equal(np.concatenate(blocks, axis=1), rows[:, np.lexsort(rows[::-1])])
    firsts = [set(block[0].tolist()) for block in blocks]
    assert all(not a & b for i, a in enumerate(firsts) for b in firsts[i + 1 :]), "a value was torn apart"
    assert bool(list(tmp_path.iterdir())) == (run_rows < 500)
    widest = int(np.unique(rows[0], return_counts=True)[1].max())
    assert max(block.shape[1] for block in blocks) <= 2 * run_rows + len(list(tmp_path.iterdir())) * widest


def test_nothing(tmp_path: Path) -> None:
    assert list(SortedRows(2, tmp_path).sorted_rows()) == []
