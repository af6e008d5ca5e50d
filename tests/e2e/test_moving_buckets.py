"""Answers do not depend on the node on which a batch finds the states of the buckets; a node is a cache folder."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pststream.answers.bucket_file import open_bucket
from pststream.pipeline.answers import fold_bucket
from pststream.pipeline.answers.answer_context import states_folder
from tests.standing_worlds import ANSWER_BUCKETS, StandingTwin, standing_home, write_standing_world

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

BATCHES = (
    *(("a", "missing"), ("b", "missing"), ("a", "behind"), ("b", "behind"), ("c", "missing")),
    *(("a", "stale"), ("c", "behind"), ("b", "stale"), ("a", "missing"), ("c", "behind")),
)
"""The node of each batch, and what the states are that it has.

behind  the batches that they lack are in the log
stale   they are older than the last snapshot: the log may no longer have what they lack
"""

SNAPSHOT, LOST = 5, 9
"""After the first of these batches `maintain` writes a snapshot; before the second its node loses its states."""


def batches_of_states(node: Path) -> set[int]:
    """Return the batches up to which the states of a node are; it has none, or those of all buckets."""
    paths = [path for path in states_folder(str(node)).glob("*/*") if path.name.isdigit()]
    assert len(paths) in (0, ANSWER_BUCKETS)
    batches = set()
    for path in paths:
        state = open_bucket(path)
        assert state is not None, "torn or dirty"
        with state:
            batches.add(state.batch_id)
    return batches


def test_each_batch_on_another_node_gives_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = write_standing_world(tmp_path / "files", 41, 2, objects=100, subscriptions=40)
    home, built = standing_home(tmp_path / "home", world), list[Path]()
    build = fold_bucket.build_state

    def count(state: Any, path: Path, *others: Any) -> Any:
        built.append(path)
        return build(state, path, *others)

    monkeypatch.setattr(fold_bucket, "build_state", count)
    for batch_id, (name, states) in enumerate(BATCHES, 1):
        if batch_id in (1, SNAPSHOT + 1):
            home.ingest("requests", [world.requests[batch_id // SNAPSHOT]])
            home.ingest("objects", [world.objects[batch_id // SNAPSHOT]])
        node = tmp_path / name
        if batch_id == LOST:
            shutil.rmtree(node)
        found = batches_of_states(node)
        is_stale = batch_id > SNAPSHOT > min(found, default=SNAPSHOT)
        assert states == ("missing" if not found else "stale" if is_stale else "behind")
        built.clear()
        home.set(cache_dir=str(node))
        (batch,) = home.run("match", "--one", "--max-objects", "10")["batches"]
        assert batch["batch_id"] == batch_id
        assert len(built) == (0 if states == "behind" else ANSWER_BUCKETS)
        assert batches_of_states(node) == {batch_id - 1}, "a batch never writes itself into a state"
        if batch_id == SNAPSHOT:
            home.run("maintain")
    twin = StandingTwin(home)
    assert len(twin.batches) == len(BATCHES)
    twin.assert_answers_after_each_batch()
    assert home.run("check")["success"]
