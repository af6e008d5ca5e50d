"""Files of buckets, folded batches against answers from all objects, bounds, and the number of kept entries."""

import math
import os
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MethodType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from benchmarks.support.answers import answer_batches as made
from benchmarks.support.answers.buffer_policies import POLICIES, cheapest_kept, choose_kept, trim_evaluations
from pststream.answers.bucket_file import HEADER, open_bucket, read_buffers, spread_kept
from pststream.answers.contract import Asked, BatchEnd, Logged, Subscriptions, Thresholds, Values, remaining_rows
from pststream.answers.fold import advance, fold, fold_answers
from pststream.base import names
from pststream.kernels.answers.buffers import bound_objects
from tests.fuzz.cases import examples, seeds
from tests.oracles import standing_answers as twin
from tests.oracles.buffer_walk import updates_until_dry
from tests.unit.answers.worlds import (
    NEVER,
    WORLDS,
    Home,
    Insertion,
    MadeObject,
    World,
    build,
    dense_world,
    no_subscriptions,
    no_thresholds,
    no_values,
    to_values,
)


def run(world: World) -> Home:
    """Run all batches of a world, and one with the rest of both logs; compare the answers after each with the twin."""
    with TemporaryDirectory() as folder:
        home = Home(world, Path(folder, "bucket"))
        for cut in [*world.cuts, (len(world.objects), len(world.requests), []), (0, 0, [])]:
            folded = home.run_batch(*cut)
            assert home.answers == home.expected()
            check_ranks(home, folded)
        with home.open_state() as state:
            assert (state.columns.size <= state.columns.room).all()
    return home


def check_ranks(home: Home, folded) -> None:
    changes = folded.changes
    ranks, objects = {}, home.log()
    for key in set(changes.subscription[changes.entered].tolist()):
        rows = twin.answer(home.insertions[key], objects, home.value_of)
        ranks.update({(key, row[0]): (rank, row[2]) for rank, row in enumerate(rows, 1)})
    for key, entered, rank, number, value in zip(
        *(a.tolist() for a in (changes.subscription, changes.entered, changes.rank, changes.object, changes.value))
    ):
        if entered:
            assert ranks[key, number] == (rank, pytest.approx(value))


@examples(150)
@given(WORLDS)
def test_changes_add_up_to_the_answers(world: World) -> None:
    run(world)


@seeds(60)
def test_changes_add_up_when_buffers_fill_and_run_dry(seed: int) -> None:
    run(dense_world(seed))


def insertion(k: int, window: tuple, created_at: int = 0, end_at: int | None = None, spare: int = 1) -> Insertion:
    """Make a subscription at place 0 that all objects match."""
    return Insertion(0, 3, k, spare, window, created_at, end_at)


@pytest.mark.parametrize(
    ("window", "size", "places"), [((None, None), 4, 1), ((50, None), 300, 3), ((None, 40), 4, 3), ((2, 1), 300, 1)]
)
def test_many_ties_of_value(window: tuple, size: int, places: int) -> None:
    """All objects at one point, or at three; the last of every ten comes late."""
    objects = [MadeObject(n // 3 - 20 * (n % 10 == 9), n % places, 1) for n in range(200)]
    cuts = [(0, 4, []), *[(size, 0, [])] * (200 // size)]
    world = World(objects, [insertion(k, window) for k in (1, 2, 5, 1)], cuts, 1, size)
    run(world)


def test_a_subscription_with_too_few_matches_is_evaluated_once() -> None:
    objects = [MadeObject(n, 0, 2 if n % 20 else 1) for n in range(200)]
    requests = [Insertion(0, 1, 15, 3, window, 0, None) for window in ((60, None), (None, 60))]
    home = run(World(objects, requests, [(0, 2, []), *[(5, 0, [])] * 40], 1, 0))
    assert home.evaluations == 2


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


RECIPE = made.Recipe(2_000, 20, 20, 30, 10_000, 1_000, 3_000)


def fold_batches(path: Path, with_bounds: bool) -> list[np.ndarray]:
    """Fold three batches; return all arrays of the results, and of the buffers at the end."""
    arrays: list[np.ndarray] = []
    with made.make_bucket(path, RECIPE) as state:
        if not with_bounds:
            state.bound_objects = MethodType(lambda self, _: bound_objects(self.columns.object_rows[:0]), state)
        for batch_id in (1, 2, 3):
            candidates, end = made.make_batch(state, RECIPE, batch_id)
            # Every third object is late by up to half a window.
            late = np.where(candidates.object % 3 == 0, candidates.object % 5_000, 0)
            candidates = Values(candidates.subscription, candidates.object, candidates.object - late, candidates.value)
            folded = fold(state, made.none_inserted(), made.NO_DELETIONS, candidates, end)
            whole = fold_answers(state, folded, made.made_up_answers(folded.asked, end))
            advance(state, made.none_inserted(), made.NO_DELETIONS, [Logged(whole.entries, whole.thresholds)], end)
            arrays += [*whole.entries, *whole.thresholds, *whole.changes]
        arrays += [*read_buffers(state)[0], state.columns.oldest.copy()]
        assert len(state.bound_objects(np.arange(2_000)).oldest) == (with_bounds and 51)
    return arrays


def test_bounds_change_no_result(tmp_path: Path) -> None:
    with_bounds, without = (fold_batches(tmp_path / str(flag), flag) for flag in (True, False))
    assert len(with_bounds[0]) > 1_000
    for one, other in zip(with_bounds, without, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_built_state_numbers_objects_by_time(tmp_path: Path) -> None:
    with made.make_bucket(tmp_path / "bucket", RECIPE) as state:
        bounds = state.bound_objects(np.arange(2_000))
        assert len(bounds.oldest) > 30
        assert (bounds.oldest[1:] >= bounds.newest[:-1]).all()
        times = state.columns.object_rows[: int(state._header["objects"]), 0]
        assert bounds.oldest.tolist() == [times[at : at + 256].min() for at in range(0, len(times), 256)]
        assert bounds.newest.tolist() == [times[at : at + 256].max() for at in range(0, len(times), 256)]


TYPES = {"batch_id": pa.int64(), "event": pa.string(), "subscription_key": pa.int64(), "object_key": pa.int64(),
         "ts": pa.timestamp("us", tz="UTC"), "term": pa.string()}  # fmt: skip


def changes(*rows: tuple) -> pa.Table:
    """Make rows: batch, event, subscription, object, ts, term."""
    columns = list(zip(*rows)) or [()] * len(TYPES)
    return pa.table({name: pa.array(column, type_) for (name, type_), column in zip(TYPES.items(), columns)})


def test_an_object_that_left_is_in_no_answer_until_it_enters_again() -> None:
    rows = changes(
        (1, "entered", 7, 100, 5, None), (1, "entered", 8, 100, 5, None), (2, "left", 7, 100, 5, None),
        (3, "entered", 7, 100, 5, None), (4, "left", 8, 100, 5, None), (4, "entered", 8, 100, 5, None),
        (4, "left", 7, 100, 5, None),
    )  # fmt: skip
    assert sorted(remaining_rows(rows).tolist()) == [5]
    assert remaining_rows(changes()).tolist() == []


def test_of_reports_the_last_tick_stays_and_those_from_a_tick_on() -> None:
    rows = changes(
        (1, "entered", 7, None, 10, "fire"), (1, "entered", 7, None, 20, "fire"), (1, "entered", 7, None, 20, "smoke"),
        (1, "entered", 7, None, 30, "fire"), (2, "left", 7, None, 20, "smoke"), (1, "entered", 8, None, 10, "tea"),
        (2, "entered", 9, 100, 5, None),
    )  # fmt: skip
    assert sorted(remaining_rows(rows).tolist()) == [3, 5, 6]
    assert sorted(remaining_rows(rows, 20).tolist()) == [1, 3, 5, 6]


@pytest.mark.parametrize(("kept", "promised"), [(20, 0.95), (22, 0.31), (25, 0.15), (30, 0.08), (40, 0.04)])
def test_the_model_promises_the_evaluations_of_the_paper(kept: int, promised: float) -> None:
    """Evaluations while as many messages as the window has arrive, and as many expire."""
    assert round(2 * kept / updates_until_dry(20, kept), 2) == promised


@pytest.mark.parametrize(("k", "evaluation"), [(1, 10.0), (7, 900.0), (20, 4_000.0)])
def test_the_cheapest_number_is_that_of_the_walk(k: int, evaluation: float) -> None:
    def cost_by_walk(kept: int) -> float:
        return kept * k * math.log(kept / k) + evaluation * kept / updates_until_dry(k, kept)

    assert cheapest_kept(k, evaluation) == min(range(k, 3 * k + 1), key=cost_by_walk)


def test_numbers_are_spread_by_the_key() -> None:
    keys = (np.int64(7) << 32) + np.arange(10_000)
    k, kept = np.full(10_000, 20, np.int32), np.full(10_000, 30, np.int32)
    numbers = spread_kept(keys, k, kept)
    assert spread_kept(keys[::-1], k, kept)[::-1].tolist() == numbers.tolist()
    assert (numbers.min(), numbers.max()) == (24, 36) and abs(numbers.mean() - 30) < 0.1
    assert np.bincount(numbers)[25:36].min() > 600
    # Neighbours are not alike.
    assert np.abs(np.diff(numbers)).mean() > 3


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_keeps_fewer_than_k(policy: str) -> None:
    k = np.array([1, 20, 90, 90], np.int32)
    kept = choose_kept(policy, np.arange(4), k, np.full(4, 30, np.int32), np.array([1.0, 1e4, 1e4, 1e6]))
    assert kept.dtype == np.int32 and (kept >= k).all()


def test_an_unknown_policy_is_refused() -> None:
    one = np.ones(1, np.int32)
    with pytest.raises(ValueError, match="'best' is none of the policies threshold, cskyband, skyband, kmax"):
        choose_kept("best", one, one, one, 1.0)


def test_skyband_keeps_scores_near_the_k_th() -> None:
    keys = np.array([3, 5, 7, 9])
    asked = Asked(keys, np.full(4, 2, np.int32), np.full(4, 4, np.int32))
    scores = {3: [0.9, 0.8, 0.77, 0.5], 5: [0.9, 0.8, 0.79], 7: [], 9: [0.5]}
    rows = [(key, 10 + n, n, -score) for key, all_scores in scores.items() for n, score in enumerate(all_scores)]
    random.Random(2).shuffle(rows)
    trimmed, answers = trim_evaluations(asked, to_values(rows))
    assert trimmed.kept.tolist() == [3, 4, 4, 4]
    assert answers.subscription.tolist() == [3, 3, 3, 5, 5, 5, 9] and answers.object.tolist()[:3] == [10, 11, 12]


def test_skyband_keeps_distances_near_the_k_th() -> None:
    asked = Asked(np.array([3]), np.full(1, 2, np.int32), np.full(1, 5, np.int32))
    distances = [0.0, 95.0, 99.0, 100.0, 101.0]
    trimmed, answers = trim_evaluations(asked, to_values([(3, 10 + n, n, one) for n, one in enumerate(distances)]))
    assert trimmed.kept.tolist() == [4] and answers.value.tolist() == distances[:4]
