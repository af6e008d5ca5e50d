"""Split many keyword expressions into shapes and words, and put the words of each into the clauses of its shape."""

import numpy as np

from pststream.kernels.compile import kernel
from pststream.kernels.parsing.texts import ids_of_words
from pststream.kernels.sort_and_search import drop_repeats, sort_few

OPEN, CLOSE, AND, OR, FIRST_WORD = 0, 1, 2, 3, 4
"""Codes of a shape: symbols, and the first of the words."""

MOST_TOKENS = 64
MOST_WORDS = 200
"""An expression with more is not read here; the code of its last word fits a byte."""

_SPACE, _QUOTE = 32, 34


@kernel
def _run_end(data, position, stop):
    """Return the position after the word at `position`, with its punctuation; -1 if it has a quote or is not ASCII."""
    while position < stop:
        byte = data[position]
        if byte == _SPACE or byte == 40 or byte == 41:
            break
        if byte < _SPACE or byte > 126 or byte == _QUOTE:
            return -1
        position += 1
    return position


@kernel
def _compare_words(data, start, stop, other_start, other_stop, folded):
    """Return -1, 0 or 1: the order of two words as folded bytes."""
    for i in range(min(stop - start, other_stop - other_start)):
        byte, other = folded[data[start + i]], folded[data[other_start + i]]
        if byte != other:
            return -1 if byte < other else 1
    return np.sign((stop - start) - (other_stop - other_start))


@kernel
def _number_of_word(data, start, stop, folded, spans, words):
    """Return the number of a word among the first `words` spans, which it joins if it is not there."""
    for number in range(words):
        if _compare_words(data, start, stop, spans[number, 0], spans[number, 1], folded) == 0:
            return number
    if words < len(spans):
        spans[words, 0], spans[words, 1] = start, stop
    return words


@kernel
def _read_run(data, position, end, folded, spans, words):
    """Return the number of the word of a token; -1 if the token has no word, or several."""
    while position < end and folded[data[position]] == 0:
        position += 1
    start = position
    while position < end and folded[data[position]] != 0:
        position += 1
    for i in range(position, end):
        if folded[data[i]] != 0:
            return -1
    return _number_of_word(data, start, position, folded, spans, words) if start < position else -1


@kernel
def _read_expression(data, position, stop, folded, spans, codes, size):
    """Write the codes of one expression; return the numbers of distinct words and of codes, -1 if it is not read."""
    words, tokens = 0, 0
    while position < stop:
        byte = data[position]
        if byte == _SPACE:
            position += 1
            continue
        tokens += 1
        if tokens > MOST_TOKENS:
            return words, -1
        if byte == 40 or byte == 41:
            codes[size] = OPEN if byte == 40 else CLOSE
            size += 1
            position += 1
            continue
        end = _run_end(data, position, stop)
        if end < 0:
            return words, -1
        length = end - position
        if length == 3 and data[position] == 65 and data[position + 1] == 78 and data[position + 2] == 68:
            codes[size] = AND
            size += 1
        elif length == 2 and data[position] == 79 and data[position + 1] == 82:
            codes[size] = OR
            size += 1
        else:
            number = _read_run(data, position, end, folded, spans, words)
            words = max(words, number + 1)
            if number < 0 or words > MOST_WORDS:
                return words, -1
            codes[size] = FIRST_WORD + number
            size += 1
        position = end
    return words, size


@kernel
def read_expressions(data, offsets, folded):
    """Split each expression into the codes of its shape and its distinct words, numbered as they first occur.

    data, offsets                 UTF-8 bytes and offsets int64[n+1]
    folded         uint8[256]     texts.FOLDED
    Returns code_offsets int32[n+1] and codes uint8; word_offsets int64[n+1], term ids int64 and ranks int32 of the
    words: the place of each among the words of the expression in alphabetic order. An expression that is not in ASCII,
    has quotes or other odd characters, a token without a word or with several, or more than MOST_TOKENS or MOST_WORDS,
    has no codes.
    """
    rows = len(offsets) - 1
    total = offsets[rows] - offsets[0]
    code_offsets, word_offsets = np.zeros(rows + 1, np.int32), np.zeros(rows + 1, np.int64)
    codes = np.empty(2 * total + 4, np.uint8)
    ids, ranks = np.empty(total + 1, np.int64), np.empty(total + 1, np.int32)
    spans = np.empty((MOST_WORDS + 1, 2), np.int64)
    for row in range(rows):
        first, size = word_offsets[row], code_offsets[row]
        words, end = _read_expression(data, offsets[row], offsets[row + 1], folded, spans, codes, size)
        if end < 0:
            words, end = 0, size
        for number in range(words):
            ids_of_words(data, spans[number, 0], spans[number, 1], folded, ids, first + number)
            rank = 0
            for other in range(words):
                if other != number:
                    rank += (
                        _compare_words(
                            data, spans[other, 0], spans[other, 1], spans[number, 0], spans[number, 1], folded
                        )
                        < 0
                    )
            ranks[first + number] = rank
        code_offsets[row + 1], word_offsets[row + 1] = end, first + words
    words = word_offsets[rows]
    return code_offsets, codes[: code_offsets[rows]].copy(), word_offsets, ids[:words].copy(), ranks[:words].copy()


@kernel
def _comes_before(ranks, starts, one, other):
    """Return whether clause `one` is shorter than `other`, or as long and before it in alphabetic order."""
    size, other_size = starts[one + 1] - starts[one], starts[other + 1] - starts[other]
    if size != other_size:
        return size < other_size
    for i in range(size):
        if ranks[starts[one] + i] != ranks[starts[other] + i]:
            return ranks[starts[one] + i] < ranks[starts[other] + i]
    return False


@kernel
def fill_clauses(shape, shape_clauses, clause_numbers, numbers, word_offsets, ids, ranks):
    """Put the words of each expression into the clauses of its shape: lists of lists of term ids.

    shape           int64[n]        shape of each expression, -1: none
    shape_clauses   int64[s+1]      slice of the clauses of each shape
    clause_numbers  int64[c+1]      slice of `numbers` of each clause
    numbers         int64[]         numbers of words
    word_offsets, ids, ranks        of `read_expressions`
    Returns outer int32[n+1], inner int32[clauses+1] and terms int64: the offsets and values of an Arrow column. The
    shorter clause comes first, then the one whose words come first; the ids of a clause ascend, each once.
    """
    rows = len(shape)
    clauses, literals, most, longest = 0, 0, 1, 1
    for row in range(rows):
        if shape[row] >= 0:
            first, last = shape_clauses[shape[row]], shape_clauses[shape[row] + 1]
            clauses += last - first
            literals += clause_numbers[last] - clause_numbers[first]
            most, longest = max(most, last - first), max(longest, clause_numbers[last] - clause_numbers[first])
    outer, inner = np.zeros(rows + 1, np.int32), np.zeros(clauses + 1, np.int32)
    terms = np.empty(literals, np.int64)
    sorted_ranks, order = np.empty(longest, np.int32), np.empty(most, np.int64)
    starts = np.empty(most + 1, np.int64)
    clause, position = 0, 0
    for row in range(rows):
        if shape[row] >= 0:
            first, last = shape_clauses[shape[row]], shape_clauses[shape[row] + 1]
            base, words = clause_numbers[first], word_offsets[row]
            # The clauses by length and alphabet.
            for i in range(clause_numbers[last] - base):
                sorted_ranks[i] = ranks[words + numbers[base + i]]
            for i in range(last - first):
                starts[i], starts[i + 1] = clause_numbers[first + i] - base, clause_numbers[first + i + 1] - base
                sort_few(sorted_ranks[starts[i] : starts[i + 1]])
                j = i
                while j > 0 and _comes_before(sorted_ranks, starts, i, order[j - 1]):
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = i
            # Their term ids, each once.
            for i in range(last - first):
                own = first + order[i]
                begin = position
                for at in range(clause_numbers[own], clause_numbers[own + 1]):
                    terms[position] = ids[words + numbers[at]]
                    position += 1
                sort_few(terms[begin:position])
                position = begin + drop_repeats(terms[begin:position])
                clause += 1
                inner[clause] = position
        outer[row + 1] = clause
    return outer, inner, terms[:position].copy()
