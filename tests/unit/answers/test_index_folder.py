"""An index in a folder is read as it was written; one that is torn, or was being changed, is refused."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from pststream.answers.scored_index import LIST, IndexFolder, ScoredIndex
from tests.unit.answers.scored_index_worlds import as_subscriptions, candidates, random_world


def opened(folder: Path) -> ScoredIndex:
    found = IndexFolder(folder).open()
    assert found
    return found[0]


@pytest.fixture
def world() -> tuple:
    return random_world(random.Random(3), 200, 15)


def test_changes_are_read_again_by_the_next_process(tmp_path: Path, world: tuple) -> None:
    subscriptions, messages, weights = world
    folder = IndexFolder(tmp_path / "a" / "b")
    assert folder.open() is None
    index = ScoredIndex()
    for batch, low in enumerate(range(0, 200, 20)):
        folder.begin_changes()
        index.insert(as_subscriptions(subscriptions[low : low + 20], weights))
        keys = np.array([one.key for one in subscriptions[: low + 20]])
        index.change_thresholds(keys, np.linspace(-0.9, 0, len(keys)).astype(np.float32))
        index.delete(keys[batch : batch + 1])
        folder.write(index, batch)
        expected = candidates(index, messages, weights)
        again = IndexFolder(folder.folder)
        index, read_batch = again.open()
        assert read_batch == batch
        assert candidates(index, messages, weights) == expected
        assert len(list(folder.folder.iterdir())) == len(index.segments) + 1
        folder = again
    assert expected


def test_the_start_of_the_batch_is_read_again(tmp_path: Path, world: tuple) -> None:
    subscriptions, _, weights = world
    folder, index = IndexFolder(tmp_path), ScoredIndex()
    index.insert(as_subscriptions(subscriptions, weights))
    for started_at in (77, 0):
        folder.write(index, 5, started_at)
        again = IndexFolder(tmp_path)
        assert again.open() and again.started_at == started_at


def test_segments_that_stay_are_not_written_again(tmp_path: Path, world: tuple) -> None:
    subscriptions, _, weights = world
    folder, index = IndexFolder(tmp_path), ScoredIndex()
    index.insert(as_subscriptions(subscriptions[:180], weights))
    folder.write(index, 1)
    (first,) = (file for file in tmp_path.iterdir() if file.name != LIST)
    index.insert(as_subscriptions(subscriptions[180:], weights))
    folder.write(index, 2)
    assert first.exists()
    assert len(index.segments) == 2


def test_an_index_that_was_being_changed_is_refused(tmp_path: Path, world: tuple) -> None:
    subscriptions, _, weights = world
    folder, index = IndexFolder(tmp_path), ScoredIndex()
    index.insert(as_subscriptions(subscriptions, weights))
    folder.write(index, 1)
    folder.begin_changes()
    assert IndexFolder(tmp_path).open() is None
    folder.write(index, 2)
    assert len(opened(tmp_path).segments) == 1


@pytest.mark.parametrize("damage", ["missing", "short", "list", "other version"])
def test_a_damaged_folder_is_refused(tmp_path: Path, world: tuple, damage: str) -> None:
    subscriptions, _, weights = world
    folder, index = IndexFolder(tmp_path), ScoredIndex()
    index.insert(as_subscriptions(subscriptions, weights))
    folder.write(index, 1)
    (file,) = (file for file in tmp_path.iterdir() if file.name != LIST)
    listed = tmp_path / LIST
    if damage == "missing":
        file.unlink()
    elif damage == "short":
        file.write_bytes(file.read_bytes()[:-64])
    elif damage == "list":
        listed.write_bytes(listed.read_bytes()[:-9])
    else:
        listed.write_text(json.dumps(json.loads(listed.read_text()) | {"made_by": ["0", "0"]}))
    assert IndexFolder(tmp_path).open() is None
    index = ScoredIndex()
    index.insert(as_subscriptions(subscriptions, weights))
    IndexFolder(tmp_path).write(index, 1)
    opened(tmp_path)
