"""Phrases in texts: those of the slow twin, in any number of parts; their terms; where columns begin."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import BREAKS, csr
from pststream.input.parse_objects import ObjectOptions, parse_objects
from pststream.input.row_chunks import ColumnChunk
from pststream.matching.verified_clauses import with_phrases
from pststream.queries.kinds.contract import split_text
from pststream.queries.kinds.keywords import EVERY_OBJECT_TEXT, has_phrase, term_of, words_by_term
from pststream.queries.text.phrases import PhraseTable
from pststream.queries.text.tokenizer import terms_of
from tests.fuzz.cases import examples

WORDS = ("tea", "Milk", "東", "京", "x1", "🔥")
PARTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=3)
PHRASES = st.lists(st.lists(st.sampled_from(WORDS), min_size=2, max_size=4).map(tuple), min_size=1, max_size=6)


def folded(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.lower() for word in words)


def table_of(phrases: list[tuple[str, ...]]) -> PhraseTable:
    words = np.array([term_of(word) for phrase in phrases for word in folded(phrase)], np.int64)
    return PhraseTable(offsets_of([len(phrase) for phrase in phrases]), words)


def objects_of(texts: list[list[str]]) -> pa.RecordBatch:
    joined = [" ".join(parts) for parts in texts]
    breaks = [np.cumsum([len(part.encode()) + 1 for part in parts[:-1]]).tolist() or None for parts in texts]
    columns = {"terms": terms_of(pa.array(joined)), "text": pa.array(joined), "text_breaks": pa.array(breaks, BREAKS)}
    return pa.RecordBatch.from_pydict(columns)


@given(st.lists(PARTS, min_size=1, max_size=5), PHRASES, st.integers(0, 6))
@examples(100)
def test_objects_get_the_terms_of_the_phrases_of_the_twin(
    texts: list[list[str]], phrases: list[tuple[str, ...]], cut: int
) -> None:
    tables = [table_of(some) for some in (phrases[:cut], phrases[cut:]) if some]
    rows = objects_of(texts)
    found = with_phrases(rows, tables)
    assert found.schema.names == ["terms"]
    own = rows.column("terms").to_pylist()
    for parts, terms, words in zip(texts, found.column("terms").to_pylist(), own, strict=True):
        expected = {term_of(*folded(one)) for one in phrases if has_phrase(folded(one), parts)}
        assert terms == sorted({*words, *expected})
    both = tables[0].joined(tables[-1])
    assert with_phrases(rows, [both]).equals(with_phrases(rows, [tables[0], tables[-1]]))


def test_many_phrases_with_a_common_beginning() -> None:
    rnd = random.Random(4)
    vocabulary = [f"w{number}" for number in range(40)]
    phrases = [("w0", *rnd.choices(vocabulary, k=rnd.randrange(1, 4))) for _ in range(3_000)]
    texts = [[" ".join(rnd.choices(vocabulary, [9] + 39 * [1], k=30))] for _ in range(200)]
    found = with_phrases(objects_of(texts), [table_of(phrases)])
    distinct, count = set(phrases), 0
    for (text,), terms in zip(texts, found.column("terms").to_pylist(), strict=True):
        expected = {term_of(*one) for one in distinct if f" {' '.join(one)} " in f" {text} "}
        assert expected == {term_of(*one) for one in distinct}.intersection(terms)
        count += len(expected)
    assert count > 500, count


def test_long_phrases_of_few_words() -> None:
    rnd = random.Random(5)
    texts = [[" ".join(rnd.choices("ab", [20, 1], k=rnd.randrange(1, 300)))] for _ in range(50)]
    phrases = [tuple(rnd.choices("ab", [20, 1], k=length)) for length in range(2, 60) for _ in range(8)]
    found = with_phrases(objects_of(texts), [table_of(phrases)])
    long_ones = 0
    for (text,), terms in zip(texts, found.column("terms").to_pylist(), strict=True):
        expected = {one for one in set(phrases) if f" {' '.join(one)} " in f" {text} "}
        assert {term_of(*one) for one in expected} == {term_of(*one) for one in set(phrases)}.intersection(terms)
        long_ones += sum(len(one) > 20 for one in expected)
    assert long_ones > 100, long_ones


def test_words_of_an_expression_with_a_star_in_quotes_are_its_words() -> None:
    assert words_by_term('"te*" NOT milk') == {term_of("te"): "te"}
    assert list(words_by_term("* AND NOT milk").values()) == [EVERY_OBJECT_TEXT] == list(words_by_term(None).values())


def test_null_texts_and_no_objects() -> None:
    rows = objects_of([["tea milk"]])
    nulls = pa.RecordBatch.from_pydict(
        {
            "terms": pa.array([[]], rows.schema.field("terms").type),
            "text": pa.array([None], pa.string()),
            "text_breaks": pa.nulls(1, BREAKS),
        }
    )
    assert with_phrases(nulls, [table_of([("tea", "milk")])]).column("terms").to_pylist() == [[]]
    assert not csr(with_phrases(rows.slice(1), [table_of([("tea", "milk")])]).column("terms"))[1].size


@pytest.mark.parametrize(
    ("columns", "breaks"),
    [
        (["free", "coffee", "now"], [5, 12]),
        (["", "é", "x"], [3]),
        ([None, "tea", None], None),
        (["", None, ""], None),
        (["  ", "a", "b"], [3, 5]),
    ],
)
def test_where_columns_begin_in_a_joined_text(columns: list[str | None], breaks: list[int] | None) -> None:
    row = {"object_id": "o", "ts": "2026-01-01T00:00:00Z", "lon": "1", "lat": "1", **dict(zip("abc", columns))}
    table = pa.RecordBatch.from_pylist([row], pa.schema([(name, pa.string()) for name in row]))
    chunk = ColumnChunk("f.csv", np.array([1]), table, [])
    ((accepted,), _) = (part.to_pylist() for part in parse_objects(chunk, ObjectOptions({"text": ["a", "b", "c"]})))
    assert accepted["text_breaks"] == breaks
    *joined, last = split_text(accepted["text"], breaks or ())
    assert breaks is None or [part.removesuffix(" ") for part in joined] + [last] == [one for one in columns if one]


def test_a_constant_in_place_of_blank_columns_has_one_part() -> None:
    row = {"object_id": "o", "ts": "2026-01-01T00:00:00Z", "lon": "1", "lat": "1", "a": " ", "b": ""}
    table = pa.RecordBatch.from_pylist([row], pa.schema([(name, pa.string()) for name in row]))
    options = ObjectOptions({"text": ["a", "b"]}, {"text": "no text"})
    chunk = ColumnChunk("f.csv", np.array([1]), table, [])
    ((accepted,), _) = (part.to_pylist() for part in parse_objects(chunk, options))
    assert (accepted["text"], accepted["text_breaks"]) == ("no text", None)
