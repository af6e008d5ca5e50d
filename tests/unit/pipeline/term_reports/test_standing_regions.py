"""The driver names shares of the standing regions, whatever their number; tasks read each region once."""

import pickle
from pathlib import Path

import numpy as np

from benchmarks.support.answers.standing_regions import add_regions
from pststream.pipeline.answers.standing_regions import list_regions
from pststream.search.question_batch import take_regions
from pststream.state.home import Home as State
from tests.commands import new_home


def test_tasks_read_the_regions_and_do_not_grow_with_them(tmp_path: Path) -> None:
    sizes = []
    for count in (50, 5_000):
        home = State(new_home(tmp_path / str(count)).path)
        assert list_regions(home, 0, 2**62, "", 0) is None
        added = add_regions(home, count, 72, 1)
        log = list_regions(home, 0, added.last_key - 7, str(tmp_path / "cache"), 10**9)
        assert log is not None
        divided = log.divide(400)
        sizes += [len(pickle.dumps((log, shares))) for shares in divided]
        read = [log.read(shares) for shares in divided]
        keys = np.concatenate([one.key for one in read])
        boxes = np.concatenate([one.regions.boxes for one in read])
        order = np.argsort(keys)
        assert keys[order].tolist() == list(range(added.last_key - count + 1, added.last_key - 6))
        assert (boxes[order] == added.boxes[:-7]).all()
        assert all(len(one.key) <= 400 and (one.step == 3_600_000_000).all() for one in read)
    assert len(sizes) == 14 and max(sizes) < min(sizes) + 50


def test_a_share_has_neighbours(tmp_path: Path) -> None:
    home = State(new_home(tmp_path / "home").path)
    added = add_regions(home, 2_000, 72, 1)
    log = list_regions(home, 0, added.last_key, str(tmp_path / "cache"), 10**9)
    assert log is not None
    areas = [np.ptp(log.read(shares).regions.boxes[:, :2], axis=0).prod() for shares in log.divide(20)]
    assert np.median(areas) < np.ptp(added.boxes[:, :2], axis=0).prod() / 20


def test_a_task_has_regions_of_several_groups_of_files(tmp_path: Path) -> None:
    home = State(new_home(tmp_path / "home").path)
    added = add_regions(home, 1_000, 72, 1, cuts=(900, 970))
    log = list_regions(home, 0, added.last_key, str(tmp_path / "cache"), 10**9)
    assert log is not None and log.counts == (900, 70, 30)
    read = [log.read(shares) for shares in log.divide(600)]
    assert [len(one.key) for one in read] == [600, 400]
    order = np.argsort(np.concatenate([one.key for one in read]))
    assert (np.concatenate([one.regions.boxes for one in read])[order] == added.boxes).all()
    assert all((take_regions(one.regions, np.arange(7)).boxes == one.regions.boxes[:7]).all() for one in read)
