"""Parse a column of keyword expressions into clauses of term ids, each distinct shape of an expression once.

`expression.parse_keywords` decides what an expression means; expressions that this module does not read are left to it.
"""

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.buffers import utf8_of
from pststream.kernels.parsing.expressions import (
    ADJACENT,
    AND,
    CLOSE,
    FIRST_WORD,
    OPEN,
    OR,
    fill_clauses,
    read_expressions,
)
from pststream.kernels.parsing.tokens import FOLDED
from pststream.queries.text.expression import MAX_CLAUSES, MAX_TERMS
from pststream.queries.text.expression_parser import Shape, ShapeError, clauses_of_shape

LONGEST = 4_096
"""Bytes of an expression that is read here. So a distinct shape, which is cached, is short too."""

_SYMBOLS = {OPEN: "(", CLOSE: ")", AND: "AND", OR: "OR"}


def parse_expressions(texts: pa.Array, max_words: int, max_pairs: int) -> tuple[pa.ListArray, np.ndarray]:
    """Return the clauses of each text (list<list<int64>>, as `parse_keywords` orders them), and bool[n]: whether it
    was parsed. The clauses of other texts are empty: they are not ASCII, have quotes, are long or not valid.

    `texts` is string; null counts as empty, which is not valid. No more than MOST_TOKENS parentheses are open.
    """
    texts = pc.fill_null(texts, "")
    sizes = pc.binary_length(texts)
    if (pc.max(sizes).as_py() or 0) > LONGEST:
        texts = pc.if_else(pc.less_equal(sizes, LONGEST), texts, "")
    data, offsets = utf8_of(texts)
    code_offsets, codes, word_offsets, ids, ranks = read_expressions(data, offsets, FOLDED)
    buffers = [None, pa.py_buffer(code_offsets), pa.py_buffer(codes)]
    shapes = pa.Array.from_buffers(pa.binary(), len(texts), buffers).dictionary_encode()
    parsed = [_clauses_of_codes(code, max_words, max_pairs) for code in shapes.dictionary.to_pylist()]
    readable = np.array([clauses is not None for clauses in parsed], bool)
    known = [clauses or () for clauses in parsed]
    shape = shapes.indices.to_numpy().astype(np.int64)
    outer, inner, terms = fill_clauses(
        np.where(readable[shape], shape, -1) if len(readable) else shape,
        _offsets([len(clauses) for clauses in known]),
        _offsets([len(clause) for clauses in known for clause in clauses]),
        np.array([number for clauses in known for clause in clauses for number in clause], np.int64),
        word_offsets,
        ids,
        ranks,
    )
    clauses = pa.ListArray.from_arrays(pa.array(inner), pa.array(terms))
    return pa.ListArray.from_arrays(pa.array(outer), clauses), readable[shape] if len(readable) else shape < 0


@lru_cache(maxsize=1 << 12)
def _clauses_of_codes(codes: bytes, max_words: int, max_pairs: int) -> tuple[tuple[int, ...], ...] | None:
    """Return the clauses of a shape as numbers of words; None if it has none or too many."""
    if sum(code >= FIRST_WORD for code in codes) > max_words:
        return None
    try:
        clauses = clauses_of_shape(_decode(codes), MAX_CLAUSES, max_pairs)
    except ShapeError:
        return None
    return tuple(map(tuple, clauses)) if sum(map(len, clauses)) <= MAX_TERMS else None


def _decode(codes: bytes) -> Shape:
    shape: list[str | tuple[int, ...]] = []
    adjacent: list[int] | None = None
    for code in codes:
        if code == ADJACENT:
            if adjacent is not None:
                shape.append(tuple(adjacent))
            adjacent = [] if adjacent is None else None
        elif code in _SYMBOLS:
            shape.append(_SYMBOLS[code])
        elif adjacent is None:
            shape.append((code - FIRST_WORD,))
        else:
            adjacent.append(code - FIRST_WORD)
    return tuple(shape)


def _offsets(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
