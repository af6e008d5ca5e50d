"""Slow twins of DSkype's partitioners (Skype, sections 7.3 and 8.2): plain loops over every cut and every word."""

import math
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Wish:
    """A subscription: place, alpha, threshold (a negative score), weights of its words by term id."""

    lon: float
    lat: float
    alpha: float
    threshold: float
    words: dict[int, float]


@dataclass(frozen=True)
class Sent:
    """A message: place and words."""

    lon: float
    lat: float
    words: tuple[int, ...]


def loose_prefix(wish: Wish) -> set[int]:
    """Return the least number of first words after which the others cannot make a message enter (Definition 12)."""
    words = sorted(wish.words, key=lambda word: (-wish.words[word], word))
    length = math.sqrt(sum(weight**2 for weight in wish.words.values()))
    for count in range(len(words) + 1):
        rest = math.sqrt(sum(wish.words[word] ** 2 for word in words[count:])) / length
        if (1 - wish.alpha) * rest < max(-wish.threshold - wish.alpha - 3e-6, -4.0):
            return set(words[:count])
    return set(words)


def halves(parts: int) -> tuple[int, int]:
    """Return how many of the parts each side of a cut becomes."""
    return (parts + 1) // 2, parts // 2


def best_cut(cuts: list, sides) -> int | float:
    """Return the cut of least difference; sides(cut): subscriptions and messages of both sides, and the parts."""

    def difference(cut) -> tuple:
        (low, high), (seen_low, seen_high), (parts_low, parts_high) = sides(cut)
        cost = abs(low * seen_low * parts_high - high * seen_high * parts_low)
        return cost, abs(low * parts_high - high * parts_low)

    return min(cuts, key=lambda cut: (*difference(cut), cut))


def split_space(wishes: list[Wish], sent: list[Sent], leaves: int, depth: int = 0) -> list[tuple[set[int], list]]:
    """Return the leaves of Algorithm 3 in order: the wishes (by identity) of each, and the cuts on the way to it."""
    if leaves == 1:
        return [({id(wish) for wish in wishes}, [])]
    parts = halves(leaves)

    def at(one) -> float:
        return one.lat if depth % 2 else one.lon

    def sides(cut):
        below, seen = sum(at(wish) <= cut for wish in wishes), sum(at(one) <= cut for one in sent)
        return (below, len(wishes) - below), (seen, len(sent) - seen), parts

    cut = best_cut(sorted({at(wish) for wish in wishes}), sides) if wishes else 0.0
    found = []
    for is_low, count in zip((True, False), parts):
        inside = [wish for wish in wishes if (at(wish) <= cut) == is_low]
        seen = [one for one in sent if (at(one) <= cut) == is_low]
        below = split_space(inside, seen, count, depth + 1)
        found += [(members, [(depth % 2, cut, is_low), *way]) for members, way in below]
    return found


def is_inside(lon: float, lat: float, way: list) -> bool:
    """Return whether a point lies in the leaf that these cuts lead to."""
    return all(((lat if axis else lon) <= cut) == is_low for axis, cut, is_low in way)


def estimate_shares(words: list[int], sent: list[set[int]]) -> dict[int, float]:
    """Return the share of messages with each word; those that no message has share what those that one has have."""
    seen = {word: sum(word in one for one in sent) for word in words}
    total, once, new = sum(seen.values()), list(seen.values()).count(1), list(seen.values()).count(0)
    return {
        word: (count * (1 - once / (total + 1)) if count else (once + 1) / new) / (len(sent) + 1)
        for word, count in seen.items()
    }


def cost_of_unit(held: list[set[int]], shares: dict[int, float], run: set[int]) -> float:
    """Return the cost of a unit with a run of words; held: the words of each subscription that count."""
    cost = 1.0 - math.exp(-sum(shares[word] for word in run))
    for words in held:
        for word in words & run:
            cost += 0.5 * min(shares[word], 5e-5) + 0.00125 * shares[word]
    return cost


def least_greatest_cost(held: list[set[int]], shares: dict[int, float], words: list[int], runs: int) -> float:
    """Return the least value that the greatest cost of a run can have, by trying every cut."""

    @cache
    def least(start: int, left: int) -> float:
        if left == 1:
            return cost_of_unit(held, shares, set(words[start:]))
        return min(
            max(cost_of_unit(held, shares, set(words[start:cut])), least(cut, left - 1))
            for cut in range(start, len(words) + 1)
        )

    return least(0, runs)


def split_words(held: list[set[int]], sent: list[set[int]], words: list[int], runs: int) -> list[list[int]]:
    """Return the runs of Algorithm 4; held: the words of each subscription that count."""
    if runs == 1:
        return [words]
    parts = halves(runs)

    def sides(cut):
        low, high = set(words[:cut]), set(words[cut:])
        return (
            tuple(sum(bool(some & side) for some in held) for side in (low, high)),
            tuple(sum(bool(some & side) for some in sent) for side in (low, high)),
            parts,
        )

    cut = best_cut(list(range(1, len(words))), sides) if len(words) > 1 else len(words)
    return [
        *split_words(held, sent, words[:cut], parts[0]),
        *split_words(held, sent, words[cut:], parts[1]),
    ]


def by_frequency(wishes: list[Wish], sent: list[Sent]) -> list[int]:
    """Return all words, the least frequent in messages first, then by id."""
    words = {word for wish in wishes for word in wish.words} | {word for one in sent for word in one.words}
    return sorted(words, key=lambda word: (sum(word in one.words for one in sent), word))
