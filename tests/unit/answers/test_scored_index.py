"""The index of `topk` subscriptions finds the pairs of a plain comparison, at every threshold, and in a folder."""

import json
import math
import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.answers import scored_index
from pststream.answers.contract import Values
from pststream.answers.scored_index import (
    LIST,
    RATIO,
    IndexFolder,
    Messages,
    ScoredIndex,
    ScoredSubscriptions,
)
from pststream.base.arrays import read_only
from pststream.kernels.matching.postings import make_term_table
from pststream.kernels.scored import find_candidates
from pststream.kernels.scored.find_candidates import MANY_WORDS, MessageArrays, find_words
from pststream.queries.shapes.contract import matched_lon
from pststream.search.answerers import ANSWERERS
from pststream.search.term_weights import EQUAL_WEIGHTS
from tests.fuzz.cases import examples, seeds
from tests.oracles.scored_subscriptions import GREATEST_DISTANCE_M, Message, Scored, values
from tests.unit.answers.scored_index_worlds import (
    Weights,
    as_messages,
    as_subscriptions,
    by_pair,
    candidates,
    random_world,
    some_place,
    some_words,
    term,
    with_thresholds,
)
from tests.unit.search.worlds import asked, object_table, snapshot_of, some_objects, some_question, weights_of
from tests.worlds import WORDS

ULP = 1.2e-7
"""Scores of the twin and of the kernel may differ in the last bit of float32."""


def index_of(subscriptions: list[Scored], weights: Weights) -> ScoredIndex:
    index = ScoredIndex()
    index.insert(as_subscriptions(subscriptions, weights))
    return index


def agree(found: dict, subscriptions: list[Scored], messages: list[Message], weights: Weights) -> None:
    """Compare pairs with the twin; where a value is next to the threshold, either verdict is right."""
    threshold = {one.key: one.threshold for one in subscriptions}
    expected = values(subscriptions, messages, weights)
    assert set(found) <= set(expected)
    for pair, value in expected.items():
        if pair in found:
            assert abs(found[pair] - value) <= ULP
            assert found[pair] <= threshold[pair[0]]
        else:
            assert value > threshold[pair[0]] - ULP


def exact(index: ScoredIndex, messages: list[Message], weights: Weights) -> dict[tuple[int, int], float]:
    """Return the values of all pairs that share a word, as the index computes them, and restore its thresholds."""
    kept = [(segment.keys.copy(), segment.thresholds.copy()) for segment in index.segments]
    for keys, thresholds in kept:
        index.change_thresholds(keys, np.full(len(thresholds), np.inf, np.float32))
    found = candidates(index, messages, weights)
    for keys, thresholds in kept:
        index.change_thresholds(keys, thresholds)
    return found


def judge(index: ScoredIndex, subscriptions: list[Scored], messages: list[Message], weights: Weights) -> None:
    """Compare with the twin, and, without any tolerance, with the pairs of all that share a word."""
    found = candidates(index, messages, weights)
    agree(found, subscriptions, messages, weights)
    threshold = {one.key: one.threshold for one in subscriptions}
    worth = exact(index, messages, weights)
    assert set(worth) == set(values(subscriptions, messages, weights))
    assert found == {pair: value for pair, value in worth.items() if value <= np.float32(threshold[pair[0]])}


@examples(40)
@given(st.randoms(use_true_random=False))
def test_small_worlds(rnd: random.Random) -> None:
    subscriptions, messages, weights = random_world(rnd, rnd.randint(0, 40), rnd.randint(0, 20))
    subscriptions = with_thresholds(rnd, subscriptions, messages, weights)
    judge(index_of(subscriptions, weights), subscriptions, messages, weights)


@pytest.mark.deep
@seeds(2)
def test_messages_of_many_words(seed: int) -> None:
    rnd, vocabulary = random.Random(seed), 4_000
    weights = {term(number): rnd.randint(1, 24) / 2 for number in range(vocabulary)} if seed else {}
    subscriptions = [
        Scored(key, *some_place(rnd), some_words(rnd, vocabulary, 5), rnd.choice((0.0, 1.0, rnd.random())), scale)
        for key, scale in enumerate([GREATEST_DISTANCE_M, 50_000.0] * 150)
    ]
    messages = [Message(key, *some_place(rnd), some_words(rnd, vocabulary, 2_000)) for key in range(20)]
    assert sum(len(one.words) > MANY_WORDS for one in messages) > 10
    subscriptions = with_thresholds(rnd, subscriptions, messages, weights)
    judge(index_of(subscriptions, weights), subscriptions, messages, weights)


@pytest.mark.parametrize("seed", [1, 3])
def test_worlds_with_many_blocks(seed: int) -> None:
    """A word has several hundred postings, and one world has a word with more than one chunk."""
    rnd = random.Random(seed)
    subscriptions, messages, weights = random_world(rnd, 6_000 if seed == 3 else 1_500, 30)
    subscriptions = with_thresholds(rnd, subscriptions, messages, weights)
    if seed == 3:
        subscriptions = [replace(one, words=tuple({*one.words, term(10**6)})) for one in subscriptions]
        messages = [replace(one, words=tuple({*one.words, term(10**6)})) for one in messages]
    index = index_of(subscriptions, weights)
    assert seed != 3 or np.diff(index.segments[0].chunk_offsets).max() > 1
    judge(index, subscriptions, messages, weights)


def test_thresholds_that_loosen_and_tighten() -> None:
    rnd = random.Random(5)
    subscriptions, messages, weights = random_world(rnd, 700, 25)
    index = index_of(subscriptions, weights)
    for _ in range(6):
        chosen = {one.key for one in subscriptions if rnd.random() < 0.3}
        renewed = with_thresholds(rnd, subscriptions, messages, weights)
        subscriptions = [new if new.key in chosen else old for old, new in zip(subscriptions, renewed, strict=True)]
        changes = {one.key: one.threshold for one in subscriptions if one.key in chosen}
        index.change_thresholds(np.array([*changes, 10**9]), np.array([*changes.values(), 0.0], np.float32))
        judge(index, subscriptions, messages, weights)


def test_bounds_after_changes_are_those_of_a_new_segment() -> None:
    rnd = random.Random(6)
    subscriptions, messages, weights = random_world(rnd, 900, 25)
    index = index_of(subscriptions, weights)
    renewed = with_thresholds(rnd, subscriptions, messages, weights)
    arrays = as_subscriptions(renewed, weights)
    index.change_thresholds(arrays.key, arrays.threshold)
    (segment,) = index.segments
    starts = np.minimum(segment.chunk_bounds[:, -1], np.inf)
    for word in range(len(segment.ids)):
        low, high = segment.posting_offsets[word : word + 2]
        least = segment.numbers[low * 10 : high * 10]
        needs = [least[at : at + 640].reshape(10, -1)[-1].min() for at in range(0, len(least), 640)]
        chunks = starts[segment.chunk_offsets[word] : segment.chunk_offsets[word + 1]]
        assert [min(needs[at : at + 64]) for at in range(0, len(needs), 64)] == chunks.tolist()


def test_insertions_and_deletions() -> None:
    rnd = random.Random(8)
    subscriptions, messages, weights = random_world(rnd, 1_200, 20)
    subscriptions = with_thresholds(rnd, subscriptions, messages, weights)
    index, live = ScoredIndex(), []
    for low in range(0, 1_200, 100):
        part = subscriptions[low : low + 100]
        index.insert(as_subscriptions(part, weights))
        live += part
        ended = rnd.sample(live, 30)
        index.delete(np.array([one.key for one in ended] + [10**9]))
        live = [one for one in live if one not in ended]
        # A threshold that comes later does not revive a subscription.
        index.change_thresholds(np.array([one.key for one in ended]), np.zeros(30, np.float32))
        sizes = [len(segment.keys) for segment in index.segments]
        assert all(larger >= RATIO * smaller for larger, smaller in zip(sizes, sizes[1:], strict=False))
        judge(index, live, messages, weights)


@pytest.mark.parametrize("most", [12, 40, 400])
def test_segments_with_as_many_words_as_they_can_have(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The bound of 2^31 words splits what is inserted, and what would be joined."""
    monkeypatch.setattr(scored_index, "MAX_POSTINGS", most)
    rnd = random.Random(most)
    subscriptions, messages, weights = random_world(rnd, 300, 20)
    subscriptions = with_thresholds(rnd, subscriptions, messages, weights)
    index, whole = ScoredIndex(), index_of([], weights)
    for low in range(0, 300, 60):
        index.insert(as_subscriptions(subscriptions[low : low + 60], weights))
    assert max(len(segment.words) for segment in index.segments) <= most
    assert sum(len(segment.keys) for segment in index.segments) == 300
    assert sum(len(segment.words) for segment in index.segments) > most
    judge(index, subscriptions, messages, weights)
    monkeypatch.undo()
    whole.insert(as_subscriptions(subscriptions, weights))
    assert len(whole.segments) == 1
    assert candidates(index, messages, weights) == candidates(whole, messages, weights)


@pytest.mark.parametrize(("alpha", "scale"), [(0.3, 1e-3), (1.0, 50_000.0), (0.3, GREATEST_DISTANCE_M), (0.0, 1e12)])
def test_edges(alpha: float, scale: float) -> None:
    """Poles, both sides of the antimeridian, antipodes, and distances around the clamp of the score."""
    places = [(180.0, 10.0), (-180.0, 10.0), (179.9999, 10.0), (0.0, -10.0), (0.0, 90.0), (77.0, 90.0), (0.0, -90.0)]
    places += [(0.0, 0.0), (0.0, 50_000.0 / 111_195.0), (0.0, 49_999.0 / 111_195.0), (1e-9, 0.0)]
    words = [(term(1),), (term(1), term(2)), (term(1), term(2), term(3), term(4), term(5)), (term(9),)]
    texts = [(term(1),), (term(2), term(1)), (term(2), term(77)), (term(78),), ()]
    subscriptions = [
        Scored(key, *place, some, alpha, scale) for key, (place, some) in enumerate(product(places, words))
    ]
    messages = [Message(key, *place, text) for key, (place, text) in enumerate(product(places, texts))]
    weights = {term(1): 1.0, term(2): 7.5, term(3): 7.5}
    rnd = random.Random(1)
    for _ in range(3):
        subscriptions = with_thresholds(rnd, subscriptions, messages, weights)
        judge(index_of(subscriptions, weights), subscriptions, messages, weights)


def test_a_threshold_that_is_not_a_number_is_refused() -> None:
    index = index_of([Scored(1, 0.0, 0.0, (term(1),))], {})
    with pytest.raises(ValueError, match="not a number"):
        index.change_thresholds(np.array([1]), np.array([math.nan], np.float32))


def test_the_search_is_compiled_once_for_words_of_arrow_and_of_numpy() -> None:
    """Words of Arrow are read-only, which is a type of its own for the compiler."""
    messages = as_messages([Message(1, 0.0, 0.0, (term(1),))], {})
    index = index_of([Scored(1, 0.0, 0.0, (term(1),))], {})
    of_arrow = index.find_candidates(messages._replace(terms=read_only(messages.terms)))
    variants = len(find_candidates.find_candidates.signatures)
    assert by_pair(index.find_candidates(messages)) == by_pair(of_arrow) != {}
    assert len(find_candidates.find_candidates.signatures) == variants


# A sort in quadratic time would take ten seconds for the last of them.
COUNTS = (0, 1, 2, MANY_WORDS, MANY_WORDS + 1, 3_000, 200_000)


@pytest.mark.parametrize("unknown", [0, 50])
def test_words_are_ascending(unknown: int) -> None:
    rng = np.random.default_rng(unknown)
    ids = np.unique(rng.integers(-(2**62), 2**62, COUNTS[-1] + unknown))
    order = rng.permutation(len(ids))
    known = order[: len(ids) - unknown]
    table = make_term_table(ids[known], np.arange(len(known)))
    words = [rng.choice(len(known), min(count, len(known)), replace=False) for count in COUNTS]
    # Words that the index lacks stand between the others.
    terms = [rng.permutation(np.append(ids[known[own]], ids[order[len(known) :]])) for own in words]
    offsets = np.append(0, np.cumsum([len(own) for own in terms]))
    count = len(COUNTS)
    squares = np.ones(count, np.float32)
    messages = MessageArrays(np.zeros((count, 2)), squares, offsets, read_only(np.concatenate(terms)))
    own_offsets, own_words = find_words(messages, table)
    assert [own_words[first:stop].tolist() for first, stop in zip(own_offsets, own_offsets[1:])] == [
        sorted(own.tolist()) for own in words
    ]


@pytest.mark.parametrize("version", [0, 3])
def test_values_are_those_of_questions(tmp_path: Path, version: int) -> None:
    rnd = random.Random(version)
    rows = some_objects(rnd, 1_500)
    counts = {word.lower(): rnd.choice((1, 7, 400, 1_400)) for word in WORDS[3:]}
    weights = weights_of(tmp_path, (1_500, counts)) if version else EQUAL_WEIGHTS
    questions = [{**some_question(rnd, "topk", rows), "window": None, "k": 10_000, "where": None} for _ in range(80)]
    for question in questions:
        question.pop("as_of", None)
    timed = asked(questions)
    answered = ANSWERERS["topk"](snapshot_of(tmp_path, rows, [700], weights), timed)
    expected = Values(
        answered.question,
        answered.columns["object_key"].to_numpy(),
        answered.question,
        -answered.columns["score"].to_numpy(),
    )
    parsed = [question.parsed for question in timed]
    words = [[term for (term,) in one.clauses] for one in parsed]
    ids = np.array([term for some in words for term in some])
    index = ScoredIndex()
    index.insert(
        ScoredSubscriptions(
            np.arange(len(parsed)),
            matched_lon(*np.array([one.point for one in parsed]).T),
            np.array([one.point[1] for one in parsed]),
            np.array([one.alpha for one in parsed], np.float64),
            np.array([one.distance_scale_m for one in parsed], np.float64),
            np.full(len(parsed), np.inf, np.float32),
            np.cumsum([0, *map(len, words)]),
            ids,
            weights.of_terms(ids),
        )
    )
    table = object_table(rows)
    lists = table.column("terms").combine_chunks()
    terms = lists.flatten().to_numpy()
    offsets = np.cumsum([0, *lists.value_lengths().to_pylist()])
    keys, times, lon, lat = ([row[at] for row in rows] for at in (0, 2, 3, 4))
    places = matched_lon(lon, lat), np.array(lat)
    found = index.find_candidates(
        Messages(np.array(keys), np.array(times), *places, offsets, terms, weights.of_terms(terms))
    )
    assert len(found.value) > 5_000
    values_of_index, values_of_answers = by_pair(found), by_pair(expected)
    # Phrases and exclusions are verified at what the index finds: its values are bounds.
    assert all(values_of_index[pair] <= value for pair, value in values_of_answers.items())
    is_exact = [not one.verified and not one.phrases for one in parsed]
    assert 20 < sum(is_exact) < len(parsed)
    exact_of_index = {pair: value for pair, value in values_of_index.items() if is_exact[pair[0]]}
    assert exact_of_index == {pair: value for pair, value in values_of_answers.items() if is_exact[pair[0]]}


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
