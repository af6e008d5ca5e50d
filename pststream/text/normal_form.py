"""Conjunctive normal form over sets of bits: a clause is an int, a bit for each word that satisfies it."""

from collections.abc import Iterable

Clauses = list[int]


class TooManyClauses(Exception):
    """More clauses than allowed are needed."""


def both(left: Clauses, right: Clauses, limit: int) -> Clauses:
    """Clauses of `left AND right`; raises TooManyClauses beyond `limit`."""
    return minimal({*left, *right}, limit)


def either(left: Clauses, right: Clauses, limit: int) -> Clauses:
    """Clauses of `left OR right`, each pair of clauses merged; raises TooManyClauses beyond `limit`.

    Both sides are within `limit`, so at most its square of pairs are looked at.
    """
    return minimal({a | b for a in left for b in right}, limit)


def minimal(clauses: Iterable[int], limit: int) -> Clauses:
    """Without the clauses that contain another one; raises TooManyClauses once more than `limit` remain.

    In order of size, a clause that contains none of those kept before it will be in the result, so that the work
    is bounded by `limit` times their number.
    """
    kept: Clauses = []
    for clause in sorted(clauses, key=int.bit_count):
        if any(clause & other == other for other in kept):
            continue
        if len(kept) == limit:
            raise TooManyClauses
        kept.append(clause)
    return kept
