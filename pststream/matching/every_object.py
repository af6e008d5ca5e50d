"""Add the term of subscriptions without keywords to the terms of every object.

A subscription without keywords has one clause, of the term `names.EVERY_OBJECT`, which is not the id of any word. The
table `objects` does not store this term. Tasks add it to the objects if a segment has a posting of it.
"""

from collections.abc import Iterable

import numpy as np

from pststream.base import names
from pststream.matching.segments import Segment


def posts_every_object(segments: Iterable[Segment]) -> bool:
    """Return whether a segment has a subscription without keywords."""
    return any(has_every_object(segment) for segment in segments)


def has_every_object(segment: Segment) -> bool:
    """Return whether a segment posts the term of every object."""
    place = int(np.searchsorted(segment.terms, names.EVERY_OBJECT))
    return place < len(segment.terms) and int(segment.terms[place]) == names.EVERY_OBJECT


def add_every_object(offsets: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the terms of objects with the term of every object as the last of each.

    offsets, terms   int64[n+1], int64[m]   distinct terms of each object; likewise what is returned
    """
    is_stored = terms == names.EVERY_OBJECT  # as the id of a word
    if is_stored.any():
        offsets, terms = np.append(0, np.cumsum(~is_stored))[offsets], terms[~is_stored]
    added = offsets + np.arange(len(offsets))
    wider = np.empty(len(terms) + len(offsets) - 1, np.int64)
    place = np.ones(len(wider), bool)
    place[added[1:] - 1] = False
    wider[place], wider[~place] = terms, names.EVERY_OBJECT
    return added, wider
