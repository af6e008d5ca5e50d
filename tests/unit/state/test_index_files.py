"""Each file of the index belongs to one plan; a file of both is refused."""

from pathlib import Path

import numpy as np
import pytest

from pststream import names
from pststream.domain.plan import DispatchGrid, space_plan
from pststream.errors import PstError
from pststream.state.data_files import DataFile, commit
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.plans import Retiring, save_plan

PLAN = space_plan("grid", DispatchGrid(0.0, 0.0, 1.0, 1.0, 1, 1), np.zeros(1), np.zeros(1), 1)
FIGURES = {
    "load_total": 1.0, "load_max": 1.0, "load_min": 1.0, "imbalance": 1.0, "worker_loads": [1.0], "options": {},
    "seconds": 0.0,
}  # fmt: skip


def file(name: str, worker: int, low: int, high: int, index: int = 1) -> DataFile:
    partition = {"index_version": index, "worker": worker}
    return DataFile(name, 1, 1, partition, {"subscription_key": low}, {"subscription_key": high})


def plans_of_files(home: Home, version: int) -> dict[str, int]:
    return {Path(f.path).name: f.plan_version for f in index_files(home, version)}


def test_files_by_plan(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    save_plan(home, 1, PLAN, FIGURES)
    held = [file("old", 0, 1, 10), file("new", 0, 11, 20), file("gone", -1, 5, 15), file("other", 0, 1, 1, index=3)]
    commit(home, names.WORKER_INDEX, held, application="test", transaction=1)
    assert plans_of_files(home, 1) == {"old": 1, "new": 1, "gone": 1}
    save_plan(home, 2, PLAN, FIGURES, 1, Retiring(1, 10))
    assert plans_of_files(home, 2) == {"old": 1, "new": 2, "gone": 2}
    save_plan(home, 3, PLAN, FIGURES, 1)
    assert plans_of_files(home, 3) == {"old": 3, "new": 3, "gone": 3}
    commit(home, names.WORKER_INDEX, [file("both", 0, 10, 11)], application="test", transaction=2)
    assert plans_of_files(home, 3)["both"] == 3
    with pytest.raises(PstError, match="both"):
        index_files(home, 2)
