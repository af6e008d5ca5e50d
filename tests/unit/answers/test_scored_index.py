"""The index of `topk` subscriptions finds the pairs that a plain comparison of all pairs finds, at every threshold."""

import math
import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pststream.answers.scored_index import RATIO, ScoredIndex, build_scored_segment, subscriptions_of
from pststream.base.arrays import read_only
from pststream.kernels.scored import find_candidates
from pststream.kernels.scored.find_candidates import MANY_WORDS
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


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_small_worlds(rnd: random.Random) -> None:
    subscriptions, messages, weights = random_world(rnd, rnd.randint(0, 40), rnd.randint(0, 20))
    subscriptions = with_thresholds(rnd, subscriptions, messages, weights)
    judge(index_of(subscriptions, weights), subscriptions, messages, weights)


@pytest.mark.parametrize("seed", range(2))
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


@pytest.mark.parametrize("seed", range(4))
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


def test_values_that_equal_the_threshold_are_found_and_greater_ones_are_not() -> None:
    rnd = random.Random(11)
    subscriptions, messages, weights = random_world(rnd, 300, 40)
    index = index_of(subscriptions, weights)
    worth = exact(index, messages, weights)
    keys = np.array(sorted({key for key, _ in worth}))
    chosen = {pair[0]: (pair[1], value) for pair, value in worth.items()}
    limits = np.array([chosen[key][1] for key in keys.tolist()], np.float32)
    index.change_thresholds(keys, limits)
    found = candidates(index, messages, weights)
    assert all(found[key, chosen[key][0]] == chosen[key][1] for key in keys.tolist())
    index.change_thresholds(keys, np.nextafter(limits, np.float32(-9)))
    found = candidates(index, messages, weights)
    assert not any((key, chosen[key][0]) in found for key in keys.tolist())


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


def test_a_segment_returns_its_subscriptions() -> None:
    rnd = random.Random(9)
    subscriptions, _, weights = random_world(rnd, 200, 1)
    segment = build_scored_segment([as_subscriptions(subscriptions, weights)])
    again = build_scored_segment([subscriptions_of(segment)])
    assert all(np.array_equal(one, other) for one, other in zip(segment, again, strict=True))


def test_the_order_of_words_is_that_of_their_weights_then_of_their_ids() -> None:
    weights = {term(0): 2.0, term(1): 5.0, term(2): 2.0}
    subscriptions = [Scored(1, 0.0, 0.0, (term(0), term(1), term(2), term(3)))]
    (segment,) = index_of(subscriptions, weights).segments
    expected = sorted(subscriptions[0].words, key=lambda word: (-weights.get(word, 1.0), word))
    assert segment.ids.tolist() == expected


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [1e-3, 50_000.0, GREATEST_DISTANCE_M, 1e12])
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


def test_all_at_one_point_with_one_word_that_all_have() -> None:
    subscriptions = [Scored(key, 5.0, 5.0, (term(1), term(key + 2)), key / 500) for key in range(500)]
    messages = [Message(key, 5.0, 5.0, (term(1), term(key + 2))) for key in range(20)]
    index = index_of(subscriptions, {})
    assert len(candidates(index, messages, {})) == 500 * 20
    index.change_thresholds(np.arange(500), np.full(500, -1.0, np.float32))
    # Alone the message with both words, or, where the place is all, each of them, has the greatest score.
    assert set(candidates(index, messages, {})) == {(key, key) for key in range(20)}


def test_a_threshold_that_is_not_a_number_is_refused() -> None:
    index = index_of([Scored(1, 0.0, 0.0, (term(1),))], {})
    with pytest.raises(ValueError, match="not a number"):
        index.change_thresholds(np.array([1]), np.array([math.nan], np.float32))


def test_an_empty_index_finds_nothing() -> None:
    messages = [Message(1, 0.0, 0.0, (term(1),))]
    assert candidates(ScoredIndex(), messages, {}) == {}
    index = index_of([Scored(1, 0.0, 0.0, (term(1),))], {})
    assert by_pair(index.find_candidates(as_messages([], {}))) == {}
    index.delete(np.array([1]))
    index.insert(as_subscriptions([Scored(2, 0.0, 0.0, (term(1),))], {}))
    assert [len(segment.keys) for segment in index.segments] == [1]


def test_the_search_is_compiled_once_for_words_of_arrow_and_of_numpy() -> None:
    """Words of Arrow are read-only, which is a type of its own for the compiler."""
    messages = as_messages([Message(1, 0.0, 0.0, (term(1),))], {})
    index = index_of([Scored(1, 0.0, 0.0, (term(1),))], {})
    of_arrow = index.find_candidates(messages._replace(terms=read_only(messages.terms)))
    variants = len(find_candidates.find_candidates.signatures)
    assert by_pair(index.find_candidates(messages)) == by_pair(of_arrow) != {}
    assert len(find_candidates.find_candidates.signatures) == variants
