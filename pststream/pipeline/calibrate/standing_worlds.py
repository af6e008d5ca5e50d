"""Draw streams like the data of DkM-SKS, Skype and SSTD, and standing `knn` and `topk` queries from their objects.

A query is made from an object: its place, and some of its words, all equally likely (DkM-SKS, section 5.1; Skype,
section 8.1). The streams have the vocabulary and the mean number of words of the papers' data sets; places are around
the cities of the USA and words follow Zipf's law, as the data itself is not at hand.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base.arrow_columns import lists
from pststream.base.sorted_keys import distinct_values
from pststream.pipeline.calibrate.homes import CHUNK
from pststream.queries.kinds.knn_kind import KNN
from pststream.queries.kinds.topk_kind import TOPK
from pststream.queries.shapes.great_circle import haversine_m
from pststream.workloads.places import USA_BOUNDS
from pststream.workloads.power_law import PowerLaw
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, term_ids


class Stream(NamedTuple):
    """A stream of objects: mean number of words drawn for an object, and the law of its vocabulary."""

    words: float
    vocabulary: PowerLaw

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw objects of the stream."""
        return synthetic_objects(count, seed, vocabulary=self.vocabulary, terms_per_object=self.words)

    def draw_parts(self, count: int, seed: int) -> Iterator[SyntheticObjects]:
        """Draw objects of the stream, a part at a time."""
        return (self.draw(min(CHUNK, count - at), seed * 1000 + at // CHUNK) for at in range(0, count, CHUNK))


STREAMS = {
    "place": Stream(2.94, PowerLaw(53_931, shift=20.0)),
    "twitter": Stream(5.51, PowerLaw(2_225_654, shift=20.0)),
    "tweets": Stream(9.0, PowerLaw(1_700_000, shift=20.0)),
    "tw14": Stream(10.0, PowerLaw(800_000, shift=20.0)),
}
"""Place and Twitter of DkM-SKS (table 1), TWEETS of Skype (table 3), TW14 of SSTD (section 7)."""

SCALE_M = haversine_m(USA_BOUNDS[0], USA_BOUNDS[1], USA_BOUNDS[2], USA_BOUNDS[3])
"""Greatest distance of the streams' space."""


class QueryWords(NamedTuple):
    """The words of queries: so many, and whether an object must have all of them or one (`knn`).

    zipf  draw them by Zipf's law instead of from objects (Skype, figure 19)
    """

    most: int
    least: int = 1
    all_needed: bool = False
    zipf: bool = False


def draw_knn(
    source: SyntheticObjects, count: int, ks: tuple[int, int], words: QueryWords, seed: int
) -> dict[str, pa.Array]:
    """Draw `knn` queries with k evenly from a range (ends included): columns of `requests`."""
    rng = np.random.default_rng([seed, 28])
    columns = _draw_queries(rng, source, count, words)
    k = rng.integers(ks[0], ks[1] + 1, count)
    return {"kind": pa.repeat(KNN.name, count), "k": pa.array(k), **columns}


def draw_topk(
    source: SyntheticObjects, count: int, k: int, window: dict[str, int], words: QueryWords, seed: int
) -> dict[str, pa.Array]:
    """Draw `topk` queries with alpha evenly from 0 to 1: columns of `requests`.

    window: the column `window_objects` or `window_us`, and its value
    """
    rng = np.random.default_rng([seed, 29])
    columns = _draw_queries(rng, source, count, words._replace(all_needed=True))  # a clause for each word
    same: dict[str, Any] = {"k": k, "distance_scale_m": SCALE_M, **window}
    return {
        "kind": pa.repeat(TOPK.name, count),
        "alpha": pa.array(rng.random(count)),
        **{name: pa.repeat(value, count) for name, value in same.items()},
        **columns,
    }


def _draw_queries(
    rng: np.random.Generator, source: SyntheticObjects, count: int, words: QueryWords
) -> dict[str, pa.Array]:
    """Draw the places of objects, and words."""
    rows = rng.integers(0, len(source.lon), count)
    wanted = rng.integers(words.least, words.most + 1, count)
    owner, terms = _zipf_words(rng, source, wanted) if words.zipf else _words_of(rng, source, rows, wanted)
    offsets = np.searchsorted(owner, np.arange(count + 1))
    items = term_ids(terms)
    if words.all_needed:
        inner = lists(np.arange(len(items) + 1), items)
        clauses = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), inner)
    else:
        clauses = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), lists(offsets, items))
    return {"lon": pa.array(source.lon[rows]), "lat": pa.array(source.lat[rows]), "clauses": clauses}


def _words_of(
    rng: np.random.Generator, source: SyntheticObjects, rows: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return so many of the words of each object, fewer if it has fewer: the query of each word, ascending; words."""
    lengths = source.term_offsets[rows + 1] - source.term_offsets[rows]
    owner = np.repeat(np.arange(len(rows)), lengths)
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(owner)) - starts[owner]
    order = np.argsort(owner + rng.random(len(owner)))
    chosen = place < wanted[owner]  # the order keeps the owners where they are
    terms = source.terms[(source.term_offsets[rows] - starts)[owner] + np.arange(len(owner))]
    return owner[chosen], terms[order[chosen]]


def _zipf_words(
    rng: np.random.Generator, source: SyntheticObjects, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return words by Zipf's law, a repeated one once."""
    law = PowerLaw(source.vocabulary.size, shift=0.0)
    owner = np.repeat(np.arange(len(wanted)), wanted)
    pairs = distinct_values(owner * law.size + law.ranks(rng.random(len(owner))))
    return pairs // law.size, pairs % law.size
