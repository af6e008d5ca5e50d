"""Score pairs of an object and a query of `topk` that has phrases or exclusions.

The searches score by all words, which is never worse. So the pairs that they find are scored again here.
"""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.matching.verify_clauses import has_term
from pststream.kernels.questions.scores import cosine_of, place_score


@kernel
def _counts(word, own, alone, phrase_ids, phrase_offsets, phrase_words, first, stop):
    """Return whether a word that an object has counts: it may stand alone, or is in a phrase that the object has."""
    for literal in alone:
        if (literal | 1) == (word | 1):
            return True
    for phrase in range(first, stop):
        if has_term(own, 0, len(own), phrase_ids[phrase]):
            for at in range(phrase_offsets[phrase], phrase_offsets[phrase + 1]):
                if phrase_words[at] == word:
                    return True
    return False


@kernel
def score_pairs(objects, rows, places, own, asked, words, verified, phrases, phrase_ids):
    """Return the scores of pairs below 0, as the searches compute them: float32[n]; not a number: no word counts.

    objects, rows           int64[n] each         the object and the query of each pair
    places    points float64[o,2] and squared lengths float32[o] of the vectors of words of the objects
    own       int64[o+1], int64[]: ascending terms of each object, those of its phrases among them
    asked     records float64[q,4] (lon, lat, alpha, scale) and squares float32[q] of the queries
    words     offsets int64[q+1], term ids int64[w] and weights float32[w] of the words of each query
    verified  offsets of clauses, offsets of literals, literals: a clause whose literals are odd excludes, another one
              has the words that count wherever they stand
    phrases   offsets of phrases, offsets of words, words; phrase_ids int64[p]: their term ids
    """
    points, object_squares = places
    term_offsets, terms = own
    records, squares = asked
    word_offsets, ids, weights = words
    clause_offsets, literal_offsets, literals = verified
    phrase_offsets, phrase_words_offsets, phrase_words = phrases
    values = np.full(len(objects), np.nan, np.float32)
    for pair in range(len(objects)):
        row, thing = rows[pair], objects[pair]
        of_object = terms[term_offsets[thing] : term_offsets[thing + 1]]
        alone, excluded = literals[:0], False
        for clause in range(clause_offsets[row], clause_offsets[row + 1]):
            some = literals[literal_offsets[clause] : literal_offsets[clause + 1]]
            if some[0] & 1 == 0:
                alone = some
            else:
                excluded |= has_term(of_object, 0, len(of_object), some[0])
        if excluded:
            continue
        first, stop, shared = phrase_offsets[row], phrase_offsets[row + 1], 0.0
        for at in range(word_offsets[row], word_offsets[row + 1]):
            if has_term(of_object, 0, len(of_object), ids[at]) and _counts(
                ids[at], of_object, alone, phrase_ids, phrase_words_offsets, phrase_words, first, stop
            ):
                weight = np.float64(weights[at])
                shared += weight * weight
        if shared > 0.0:
            lon, lat, alpha, scale = records[row]
            text = (1.0 - alpha) * cosine_of(shared, squares[row], object_squares[thing])
            place = place_score(lon, lat, points[thing, 0], points[thing, 1], alpha, scale)
            values[pair] = np.float32(-(place + text))
    return values
