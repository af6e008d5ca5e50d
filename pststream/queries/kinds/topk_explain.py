"""Evaluate the rule of `topk` answers without the kernels: the score of place and text (Skype, Equation 1)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pststream.queries.kinds.answer_contract import Description, ObjectRows, RankedAnswers, WordWeights
from pststream.queries.kinds.answer_query import AnswerQuery
from pststream.queries.kinds.keywords import describe_words, show_words, words_by_term, words_of_keywords
from pststream.queries.kinds.stored_columns import ALPHA, DISTANCE_SCALE, LAT, LON
from pststream.queries.shapes.great_circle import haversine_of_arrays
from pststream.queries.text.words import tokenize


@dataclass(frozen=True)
class WordsQuery(AnswerQuery):
    """A stored query for the best scores, whose keywords are words alone: one of them is enough."""

    def explain_missing(self, text: str) -> str | None:
        """Explain that a text has none of the words, in a sentence; None if it has one."""
        words, own = words_of_keywords(self.keywords), tokenize(text)
        if not words.isdisjoint(own):
            return None
        return f"the text has none of the words {show_words(sorted(words))}; {describe_words(own)}"


class Score(NamedTuple):
    """The distances of objects in metres, and the parts of their scores: float64[n] each.

    text   not a number: the object has none of the words
    """

    metres: np.ndarray
    place: np.ndarray
    text: np.ndarray


def score(asked: Description, objects: ObjectRows, weights: WordWeights) -> Score:
    """Return the parts of the scores of objects.

    A score is alpha * max(0, 1 - distance / scale) + (1 - alpha) * cosine of the weighted words. The squared lengths of
    both vectors are rounded to float32, as where they are stored.
    """
    alpha, point = asked["alpha"], asked["point"]
    metres = haversine_of_arrays(point["lon"], point["lat"], objects.lon, objects.lat)
    words = sorted(words_by_term(asked["keywords"]))
    has_word = objects.have_any(words)
    chosen = has_word[objects.owner]
    owner, terms = objects.owner[chosen], objects.terms[chosen]
    squares, shared, count = weights.of_terms(terms) ** 2, np.isin(terms, words), len(objects.key)
    length = np.bincount(owner, squares, count).astype(np.float32).astype(np.float64)
    own = float(np.float32((weights.of_terms(np.array(words, np.int64)) ** 2).sum()))
    common = np.bincount(owner[shared], squares[shared], count)
    cosine = np.divide(common, np.sqrt(own * length), out=np.full(count, np.nan), where=has_word)
    return Score(metres, alpha * np.maximum(0.0, 1.0 - metres / asked["distance_scale_m"]), (1.0 - alpha) * cosine)


def negative_scores(asked: Description, objects: ObjectRows, weights: WordWeights) -> np.ndarray:
    """Return the scores below 0: float32[n]; not a number for objects without any of the words."""
    _, place, text = score(asked, objects, weights)
    return -(place + text).astype(np.float32)


def parts(asked: Description, objects: ObjectRows, weights: WordWeights) -> dict[str, Any]:
    """Return the distance of an object, the two parts of its score, and the weights of the shared words."""
    metres, place, text = (float(part[0]) for part in score(asked, objects, weights))
    words = {term: word for term, word in words_by_term(asked["keywords"]).items() if term in objects.terms}
    shared = weights.of_terms(np.array(list(words), np.int64)).tolist()
    return {
        "distance_m": metres,
        "distance_part": place,
        "text_part": text,
        "alpha": asked["alpha"],
        "words": dict(sorted(zip(words.values(), shared, strict=True))),
        "term_statistics_version": weights.version,
    }


def no_reach(asked: Description, value: float) -> None:
    """Return None: a good text makes up for any distance."""


BEST_SCORES = RankedAnswers(
    value_column="score",
    sign=-1,
    value_text=lambda score: f"{score:.6f}",
    values=negative_scores,
    parts=parts,
    numbers=(LON.name, LAT.name, ALPHA.name, DISTANCE_SCALE.name),
    mark=ALPHA.name,
    is_weighed=True,
    reach=no_reach,
)
