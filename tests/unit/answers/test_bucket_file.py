"""The file of a bucket's state: what counts as missing, growth, ended subscriptions."""

import os
from pathlib import Path

import numpy as np
import pytest

from pststream.answers.bucket_file import HEADER, open_bucket, read_buffers
from pststream.answers.contract import BatchEnd, Logged, Subscriptions, Thresholds, Values
from pststream.answers.fold import advance, fold
from pststream.base import names
from tests.unit.answers.worlds import NEVER, build, no_subscriptions, no_thresholds, no_values, to_values

NO_DELETIONS = (np.empty(0, np.int64), np.empty(0, np.int64))
NOTHING = Logged(no_values(), no_thresholds())


def subscriptions(keys: list[int], window_objects: int = 0, end_at: int = NEVER) -> Subscriptions:
    """Make subscriptions to the two best objects, valid from 0."""
    n = len(keys)
    wide = np.zeros(n, np.int64)
    return Subscriptions(
        np.array(keys, np.int64), np.full(n, 2, np.int32), np.full(n, 3, np.int32), wide,
        np.full(n, window_objects), wide, wide, np.full(n, end_at),
    )  # fmt: skip


def limits(keys: list[int]) -> Thresholds:
    """Make thresholds that are infinite."""
    n = len(keys)
    infinite, none = np.full(n, np.inf, np.float32), np.full(n, -1)
    return Thresholds(np.array(keys), infinite, np.full(n, names.NO_TIME), none, np.ones(n, np.bool_))


def end(batch_id: int, stream_time: int = 10, windows: tuple = ()) -> BatchEnd:
    boundaries = [(names.NO_TIME, names.NO_TIME)] * len(windows)
    return BatchEnd(batch_id, stream_time, 1000, np.array(windows, np.int64), np.array(boundaries).reshape(-1, 2))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a state after batch 4 with subscriptions 5 and 7; the first has an answer."""
    path = tmp_path / "state" / "bucket-0"
    entries = to_values([(5, 100, 8, 1.5), (5, 101, 9, 0.5)])
    build(path, subscriptions([5, 7]), [Logged(entries, limits([5]))], 4).close()
    return path


def test_a_state_is_opened_as_it_was_closed(file: Path) -> None:
    with open_bucket(file) as state:
        assert state.batch_id == 4
        entries, thresholds, _ = read_buffers(state)
    assert entries.object.tolist() == [101, 100] and entries.value.tolist() == [0.5, 1.5]
    assert thresholds.subscription.tolist() == [5]


def test_a_state_has_its_room_on_the_disk(file: Path) -> None:
    """A process that writes to a mapped hole of a file dies when the disk is full."""
    status = file.stat()
    assert 512 * status.st_blocks >= status.st_size > 500_000


def test_a_missing_file_is_no_state(tmp_path: Path) -> None:
    assert open_bucket(tmp_path / "none") is None


def test_a_dirty_file_is_no_state(file: Path) -> None:
    with open_bucket(file) as state:
        state.mark_dirty()
    assert open_bucket(file) is None


def test_a_file_that_is_in_use_is_no_state_until_it_is_closed(file: Path) -> None:
    with open_bucket(file):
        assert open_bucket(file) is None
    with open_bucket(file) as state:
        assert state.batch_id == 4


@pytest.mark.parametrize("length", [0, 7, HEADER.itemsize, -1, 1])
def test_a_file_of_another_length_is_no_state(file: Path, length: int) -> None:
    size = file.stat().st_size
    os.truncate(file, length if length not in (-1, 1) else size + length)
    assert open_bucket(file) is None


@pytest.mark.parametrize("field", ["layout", "boot"])
def test_a_file_of_another_layout_or_from_before_a_restart_is_no_state(file: Path, field: str) -> None:
    content = bytearray(file.read_bytes())
    content[HEADER.fields[field][1]] ^= 1
    file.write_bytes(content)
    assert open_bucket(file) is None


def test_a_second_build_replaces_the_file_of_an_attempt_that_still_runs(file: Path) -> None:
    with open_bucket(file) as old:
        build(file, subscriptions([5]), [], 9).close()
        advance(old, no_subscriptions(), NO_DELETIONS, [NOTHING], end(5))
    with open_bucket(file) as state:
        assert state.batch_id == 9


def test_a_batch_that_the_state_has_is_refused(file: Path) -> None:
    with open_bucket(file) as state:
        with pytest.raises(ValueError, match="batch 4 is not after batch 4"):
            advance(state, no_subscriptions(), NO_DELETIONS, [NOTHING], end(4))
        with pytest.raises(ValueError, match="batch 3 is not after batch 4"):
            fold(state, no_subscriptions(), NO_DELETIONS, no_values(), end(3))
    with open_bucket(file) as state:
        assert state.batch_id == 4


def test_a_kill_while_a_batch_is_written_leaves_no_state(file: Path) -> None:
    """The walk fails at the second subscription, whose window has no boundary."""
    with open_bucket(file) as state:
        added = subscriptions([9], window_objects=6)
        advance(state, added, NO_DELETIONS, [NOTHING], end(5, windows=(6,)))
        with pytest.raises(ValueError, match="no boundary is given for the window"):
            advance(state, no_subscriptions(), NO_DELETIONS, [Logged(to_values([(9, 3, 3, 1.0)]), limits([9]))], end(6))
    assert open_bucket(file) is None


def test_new_subscriptions_move_the_state_to_a_larger_file(file: Path) -> None:
    inode = file.stat().st_ino
    with open_bucket(file) as state:
        added = list(range(10, 50_000))
        advance(state, subscriptions(added), NO_DELETIONS, [NOTHING], end(5))
        assert state.columns.key.tolist() == [5, 7, *added]
    assert file.stat().st_ino != inode
    with open_bucket(file) as state:
        assert state.batch_id == 5 and state.columns.key.tolist() == [5, 7, *added]
        assert read_buffers(state)[0].object.tolist() == [101, 100]
        folded = fold(state, no_subscriptions(), NO_DELETIONS, to_values([(5, 102, 10, 0.1)]), end(6))
    assert folded.asked.subscription.tolist() == [7, *added]
    assert folded.changes.object.tolist() == [102, 100] and folded.changes.rank.tolist() == [1, 2]


def test_new_objects_move_the_state_to_a_file_with_room_for_them(file: Path) -> None:
    with open_bucket(file) as state:
        for batch_id in range(5, 8):
            first = 100_000 * batch_id
            rows = [(5, first + n, 8 + n, 0.4 - n / 100_000 - batch_id / 100) for n in range(batch_id * 4_000)]
            advance(
                state,
                no_subscriptions(),
                NO_DELETIONS,
                [Logged(to_values(rows), no_thresholds())],
                end(batch_id, 99_999),
            )
            last = first + batch_id * 4_000 - 1
            assert read_buffers(state)[0].object.tolist() == [last, last - 1]
            assert read_buffers(state)[0].ts.tolist() == [7 + batch_id * 4_000, 6 + batch_id * 4_000]
        assert state.used_numbers().sum() == 2 and len(state.used_numbers()) < 60_000


def test_ended_subscriptions_are_dropped_when_the_file_is_rewritten(file: Path) -> None:
    with open_bucket(file) as state:
        deleted = (np.array([7, 5, 5]), np.array([10, 11, 30]))
        advance(state, no_subscriptions(), deleted, [NOTHING], end(5, 10))
        assert state.columns.status.tolist() == [2, 0]
        advance(state, no_subscriptions(), NO_DELETIONS, [NOTHING], end(6, 11))
        assert state.columns.status.tolist() == [0, 0]
        # The key of an ended subscription comes again after a fall of stream time.
        advance(state, subscriptions([7]), NO_DELETIONS, [NOTHING], end(7, 9))
        assert state.columns.key.tolist() == [7]


def test_values_of_other_subscriptions_are_left_out(file: Path) -> None:
    with open_bucket(file) as state:
        others = to_values([(4, 1, 9, 0.1), (6, 1, 9, 0.1), (8, 1, 9, 0.1), (7, 1, 9, 0.1)])
        folded = fold(state, no_subscriptions(), NO_DELETIONS, others, end(5))
    assert not len(folded.entries.object) and not len(folded.changes.object)
    assert folded.asked.subscription.tolist() == [7]


def test_arrays_may_be_read_only(file: Path) -> None:
    with open_bucket(file) as state:
        candidates = Values(*(array.copy() for array in to_values([(5, 102, 10, 0.1)])))
        for array in candidates:
            array.setflags(write=False)
        assert len(fold(state, no_subscriptions(), NO_DELETIONS, candidates, end(5)).entries.object) == 1


def test_stream_time_falls_in_the_batch_that_makes_the_file_larger(file: Path) -> None:
    """Subscription 5 has not started any more; the larger file must not hide that stream time was later."""
    with open_bucket(file) as state:
        advance(state, no_subscriptions(), NO_DELETIONS, [NOTHING], end(5, 10))
        advance(state, subscriptions([6]), NO_DELETIONS, [NOTHING], end(6, -1))
        assert not len(read_buffers(state)[0].object)


def test_a_subscription_that_lives_again_is_asked_for_once(file: Path) -> None:
    ended = np.array([5]), np.array([8])
    with open_bucket(file) as state:
        advance(state, no_subscriptions(), ended, [NOTHING], end(5, 10))
        again = fold(state, subscriptions([5, 7]), ended, no_values(), end(6, 7), True)
    assert again.asked.subscription.tolist() == [5, 7]
