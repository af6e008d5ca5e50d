"""Combine CNF clauses by AND or OR and drop implied ones; a clause is an int with a bit for each of its words."""

from collections.abc import Iterable

Clauses = list[int]


class TooManyClauses(Exception):
    """The result needs more clauses than allowed."""


def join_and(left: Clauses, right: Clauses, limit: int) -> Clauses:
    """Return the clauses of `left AND right`; raises TooManyClauses beyond `limit`."""
    return minimal({*left, *right}, limit)


def join_or(left: Clauses, right: Clauses, limit: int) -> Clauses:
    """Return the clauses of `left OR right`: the union of each pair; raises TooManyClauses beyond `limit`.

    Both sides are within `limit`, so there are at most its square of pairs.
    """
    return minimal({a | b for a in left for b in right}, limit)


def minimal(clauses: Iterable[int], limit: int) -> Clauses:
    """Drop the clauses that contain another clause; raises TooManyClauses once more than `limit` remain.

    Clauses are visited by size. A clause that contains none of the clauses kept so far is in the result, so the work is
    bounded by `limit` times the number of clauses.
    """
    kept: Clauses = []
    for clause in sorted(clauses, key=int.bit_count):
        if any(clause & other == other for other in kept):
            continue
        if len(kept) == limit:
            raise TooManyClauses
        kept.append(clause)
    return kept
