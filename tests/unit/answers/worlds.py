"""Random logs of objects and requests with their cuts, and a plain stand-in of the pipeline that folds them."""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from pststream.answers.bucket_file import (
    BucketState,
    build_bucket,
    open_bucket,
    read_buffers,
    read_parts,
    unite_objects,
)
from pststream.answers.contract import BatchEnd, Folded, Logged, Subscriptions, Thresholds, Values
from pststream.answers.fold import advance, fold, fold_answers
from pststream.base import names
from tests.oracles import standing_answers as twin

NEVER = 2**63 - 1


@dataclass(frozen=True)
class MadeObject:
    ts: int
    place: int
    words: int


@dataclass(frozen=True)
class Insertion:
    place: int
    words: int
    k: int
    spare: int
    window: tuple[int | None, int | None]
    created_at: int
    end_at: int | None


@dataclass(frozen=True)
class Deletion:
    number: int
    at: int


@dataclass(frozen=True)
class World:
    """Cuts: objects and requests of each batch, and the objects up to there that it withdraws (by number)."""

    objects: list[MadeObject]
    requests: list[Insertion | Deletion]
    cuts: list[tuple[int, int, list[int]]]
    sign: int
    seed: int


WINDOWS = st.sampled_from([(None, None), (None, None), (3, None), (9, None), (None, 4), (None, 15), (6, 9)])
MADE_OBJECTS = st.builds(MadeObject, st.integers(0, 30), st.integers(0, 6), st.integers(0, 3))
INSERTIONS = st.builds(
    Insertion,
    st.integers(0, 6),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 3),
    WINDOWS,
    st.integers(0, 25),
    st.one_of(st.none(), st.none(), st.integers(1, 35)),
)
DELETIONS = st.builds(Deletion, st.integers(0, 9), st.integers(0, 35))
CUTS = st.tuples(
    st.integers(0, 12), st.integers(0, 4), st.one_of(st.just([]), st.just([]), st.lists(st.integers(0, 60), max_size=3))
)


def nearly_in_order(objects: list[MadeObject]) -> list[MadeObject]:
    """Sort by time but for every fifth object, which comes late or early."""
    times = sorted(one.ts for number, one in enumerate(objects) if number % 5)
    return [
        one if not number % 5 else MadeObject(times.pop(0), one.place, one.words) for number, one in enumerate(objects)
    ]


WORLDS = st.builds(
    World,
    st.one_of(st.lists(MADE_OBJECTS, max_size=20), st.lists(MADE_OBJECTS, min_size=50, max_size=90)).map(
        nearly_in_order
    ),
    st.lists(st.one_of(INSERTIONS, INSERTIONS, DELETIONS), min_size=3, max_size=12),
    st.one_of(st.lists(CUTS, max_size=4), st.lists(CUTS, min_size=6, max_size=14)),
    st.sampled_from([1, -1]),
    st.integers(0, 2**32),
)


def dense_world(seed: int) -> World:
    """Make a world in which buffers fill, are cut and run dry."""
    rng = random.Random(seed)
    windows = [(None, None), (3, None), (9, None), (None, 4), (None, 15), (6, 9)]
    objects = [MadeObject(rng.randint(0, 60), rng.randint(0, 6), rng.randint(0, 3)) for _ in range(150)]
    requests: list[Insertion | Deletion] = [
        Insertion(
            rng.randint(0, 6), rng.randint(1, 3), rng.randint(1, 4), rng.randint(0, 3), rng.choice(windows),
            rng.randint(0, 40), rng.choice([None, None, rng.randint(1, 70)]),
        )
        for _ in range(16)
    ]  # fmt: skip
    requests[8:8] = [Deletion(rng.randint(0, 7), rng.randint(0, 70)) for _ in range(2)]
    cuts = [
        (rng.randint(0, 16), rng.randint(0, 3), rng.sample(range(100), 3) if rng.random() < 0.05 else [])
        for _ in range(rng.choice([2, 8, 25]))
    ]
    return World(nearly_in_order(objects), requests, cuts, rng.choice([1, -1]), seed)


def spread_key(number: int) -> int:
    """Return a key as logs have it: five rows a file."""
    return (3 + number // 5 << 32) | number % 5


@dataclass
class Home:
    """The logs up to a batch, the answers that all changes add up to, and the bucket's state in its file."""

    world: World
    path: Path
    objects: dict[int, MadeObject] = field(default_factory=dict)
    objects_read: int = 0
    requests_read: int = 0
    insertions: dict[int, twin.StandingSubscription] = field(default_factory=dict)
    made: dict[int, Insertion] = field(default_factory=dict)
    answers: Counter = field(default_factory=Counter)
    indexed: dict[int, float] = field(default_factory=dict)
    committed: tuple | None = None
    batch_id: int = 0
    evaluations: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.world.seed)
        build(self.path, no_subscriptions(), [], 0).close()

    def value_of(self, subscription: twin.StandingSubscription, one: twin.StandingObject) -> float | None:
        wanted, made = self.made[subscription.key], self.world.objects[number_of(one.key)]
        if not wanted.words & made.words:
            return None
        distance = abs(wanted.place - made.place)
        return float(distance) if self.world.sign > 0 else -(0.5**distance)

    def log(self) -> list[twin.StandingObject]:
        return [twin.StandingObject(key, made.ts) for key, made in self.objects.items()]

    def run_batch(self, n_objects: int, n_requests: int, withdrawn: list[int]) -> Folded:
        """Run a batch twice from the same state, commit it, and leave the next batch to write it into the state."""
        before = twin.stream_time_of(self.log())
        arrived = list(range(self.objects_read, min(self.objects_read + n_objects, len(self.world.objects))))
        self.objects_read += len(arrived)
        for number in arrived:
            self.objects[spread_key(number)] = self.world.objects[number]
        gone = [number for number in withdrawn if self.objects.pop(spread_key(number), None)]
        deleted = self._read_requests(n_requests)
        self.batch_id += 1
        end = self.end()
        state = self.open_state()
        known = {int(key) for key in state.columns.key}
        fresh = {key for key in self.insertions if key not in known or self._was_ended(state, key)}
        if not (before is not None and end.stream_time < before):
            fresh &= self._last_inserted
        inserted = self.to_arrays(sorted(fresh, key=lambda key: key))
        original = Path(self.path).read_bytes()
        candidates = self._candidates(arrived, bool(gone))
        folded = fold(state, inserted, deleted, candidates, end, bool(gone))
        answers = self._evaluate(folded)
        again = fold(state, inserted, deleted, self._shuffled(candidates), end, bool(gone))
        whole = fold_answers(state, folded, answers)
        assert as_rows(fold_answers(state, again, self._shuffled(answers))) == as_rows(whole)
        assert Path(self.path).read_bytes() == original
        state.close()
        self.committed = (inserted, deleted, self._split(whole), end)
        self._apply(whole)
        return whole

    def open_state(self) -> BucketState:
        """Open the state and write the last batch into it; sometimes build it from its own snapshot first."""
        state = open_bucket(self.path)
        assert state is not None
        if self.committed:
            advance(state, *self.committed)
            self.committed = None
        if self.random.random() < 0.3:
            before, parts = read_buffers(state), list(read_parts(state, self.random.choice([1, 5, 1_000])))
            known = [key for key in map(int, state.columns.key) if not self._was_ended(state, key)]
            batch_id = state.batch_id
            state.close()
            parts = [part._replace(entries=self._shuffled(part.entries)) for part in parts]
            state = build(self.path, self.to_arrays(known), parts, batch_id)
            assert [a.tolist() for a in read_buffers(state).entries] == [a.tolist() for a in before.entries]
        return state

    def end(self) -> BatchEnd:
        newest = sorted(((one.ts, one.key) for one in self.log()), reverse=True)
        lengths = sorted({one.window_objects for one in self.insertions.values() if one.window_objects})
        boundaries = [newest[length] if length < len(newest) else (names.NO_TIME, names.NO_TIME) for length in lengths]
        return BatchEnd(
            self.batch_id,
            newest[0][0] if newest else names.NO_TIME,
            spread_key(self.objects_read - 1) if self.objects_read else -1,
            np.array(lengths, np.int64),
            np.array(boundaries, np.int64).reshape(-1, 2),
        )

    def expected(self) -> Counter:
        """Return the rows of all answers by the twin."""
        rows: Counter = Counter()
        objects = self.log()
        for key, subscription in self.insertions.items():
            rows.update((key, *row[:2]) for row in twin.answer(subscription, objects, self.value_of))
        return rows

    def to_arrays(self, keys: list[int]) -> Subscriptions:
        rows = [(self.insertions[key], self.made[key]) for key in keys]
        return Subscriptions(
            np.array(keys, np.int64),
            np.array([made.k for _, made in rows], np.int32),
            np.array([made.k + made.spare for _, made in rows], np.int32),
            np.array([one.window_us or 0 for one, _ in rows], np.int64),
            np.array([one.window_objects or 0 for one, _ in rows], np.int64),
            np.array([names.NO_TIME if one.counts_from is None else one.counts_from for one, _ in rows], np.int64),
            np.array([one.created_at for one, _ in rows], np.int64),
            np.array([NEVER if one.end_at is None else one.end_at for one, _ in rows], np.int64),
        )

    def _was_ended(self, state: BucketState, key: int) -> bool:
        return state.columns.status[state.columns.key.tolist().index(key)] == 0

    def _read_requests(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        keys, times = [], []
        self._last_inserted = set()
        for number in range(self.requests_read, min(self.requests_read + count, len(self.world.requests))):
            request, key = self.world.requests[number], spread_key(number)
            if isinstance(request, Insertion):
                length, objects = request.window
                no_window = length is None and objects is None
                self.made[key] = request
                self.insertions[key] = twin.StandingSubscription(
                    key, request.k, length, objects, request.created_at if no_window else None,
                    request.created_at, request.end_at,
                )  # fmt: skip
                self._last_inserted.add(key)
            elif request.number < len(self.insertions):
                key = list(self.insertions)[request.number]
                one = self.insertions[key]
                keys.append(key)
                times.append(request.at)
                lowered = request.at if one.end_at is None else min(one.end_at, request.at)
                self.insertions[key] = one._replace(end_at=lowered)
            self.requests_read = number + 1
        return np.array(keys, np.int64), np.array(times, np.int64)

    def _candidates(self, arrived: list[int], withdraws: bool) -> Values:
        """Return what an index with the thresholds of the last batch finds, with some more that does not belong."""
        rows = []
        later = [twin.StandingObject(spread_key(self.objects_read + n), 99) for n in range(2)]
        later = [one for one in later if number_of(one.key) < len(self.world.objects)]
        fresh = [one for one in self.log() if number_of(one.key) in arrived]
        for key, subscription in self.insertions.items():
            for one in self.log() + later:
                value = self.value_of(subscription, one)
                is_found = key in self.indexed and one in fresh and value is not None and value <= self.indexed[key]
                if value is not None and (is_found or self.random.random() < 0.1):
                    rows += [(key, one.key, one.ts, value)] * self.random.choice([1, 1, 2])
        return to_values(rows)

    def _evaluate(self, folded: Folded) -> Values:
        rows = []
        for key, k, kept in zip(*(array.tolist() for array in folded.asked)):
            self.evaluations += 1
            assert k == self.insertions[key].k
            best = twin.ranked(self.insertions[key], self.log(), self.value_of)[:kept]
            rows += [(key, *row) for row in best]
        return to_values(rows)

    def _split(self, whole: Folded) -> list[Logged]:
        """Return what a batch logs in parts by ascending key, as the next batch reads it."""
        borders = sorted(self.random.sample(sorted(self.made), min(self.random.choice([0, 0, 1, 3]), len(self.made))))
        parts, after = [], -1
        for up_to in [*borders, names.MAX_INT64]:
            entries, limits = (
                type(rows)(*(a[(rows.subscription > after) & (rows.subscription <= up_to)] for a in rows))
                for rows in (whole.entries, whole.thresholds)
            )
            parts.append(Logged(entries, limits, up_to))
            after = up_to
        return parts

    def _shuffled(self, values: Values) -> Values:
        order = list(range(len(values.subscription)))
        self.random.shuffle(order)
        return Values(*(array[order] for array in values))

    def _apply(self, folded: Folded) -> None:
        changes = folded.changes
        for key, entered, number, ts in zip(*(a.tolist() for a in (*changes[:2], changes.object, changes.ts))):
            self.answers[key, number, ts] += 1 if entered else -1
        self.answers = Counter({row: count for row, count in self.answers.items() if count})
        for key, value in zip(folded.thresholds.subscription.tolist(), folded.thresholds.value.tolist()):
            self.indexed[key] = value


def number_of(key: int) -> int:
    """Return the position of a key that `spread_key` made."""
    return ((key >> 32) - 3) * 5 + (key & 0xFFFFFFFF)


def to_values(rows: list[tuple]) -> Values:
    columns = list(zip(*rows)) if rows else [[]] * 4
    return Values(*(np.array(column, dtype) for column, dtype in zip(columns, (np.int64,) * 3 + (np.float32,))))


def no_values() -> Values:
    return to_values([])


def no_thresholds() -> Thresholds:
    none = np.empty(0, np.int64)
    return Thresholds(none, np.empty(0, np.float32), none, none, np.empty(0, np.bool_))


def no_subscriptions() -> Subscriptions:
    wide, narrow = np.empty(0, np.int64), np.empty(0, np.int32)
    return Subscriptions(wide, narrow, narrow, wide, wide, wide, wide, wide)


def build(path: Path, subscriptions: Subscriptions, buffers: list[Logged], batch_id: int) -> BucketState:
    return build_bucket(path, subscriptions, unite_objects(buffers), buffers, batch_id)


def as_rows(folded: Folded) -> list[list[tuple]]:
    """Return the rows of each part in an order of their own."""
    return [sorted(zip(*(array.tolist() for array in part))) for part in folded]
