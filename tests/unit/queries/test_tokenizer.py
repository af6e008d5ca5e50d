"""Words and term ids against their slow twins, and scripts that break naive tokenizers."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.parsing.texts import hash_word
from pststream.queries.text.tokenizer import fold_characters, term_id, terms_of
from pststream.queries.text.words import TOKENIZER, tokenize
from tests.fuzz.cases import examples
from tests.oracles import text as slow

ASCII = st.text(st.characters(max_codepoint=127), max_size=60)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
TRICKY_CHARACTERS = (
    "aA_1 -\t\n\0\u0130ßſﬁﬀＡ１²½Ⅷ\u0301\u0316\u0345\u034fñ나가\u1100\u1161日本語عربيहिन्दी\u200d\u00a0😀"
)
TRICKY = st.text(st.sampled_from(TRICKY_CHARACTERS), max_size=30)


@given(st.one_of(ASCII, ANY, TRICKY))
@examples(400)
def test_words_are_those_of_the_twin(text: str) -> None:
    assert tokenize(text) == slow.words(text)


@given(st.lists(st.one_of(st.none(), ASCII, ANY, TRICKY), max_size=12))
@examples(200)
def test_terms_are_those_of_the_twin(texts: list[str | None]) -> None:
    expected = [sorted({slow.term_id(word) for word in slow.words(text or "")}) for text in texts]
    assert terms_of(pa.array(texts, pa.string())).to_pylist() == expected
    assert terms_of(pa.array(texts, pa.large_string())).to_pylist() == expected


def test_every_character_between_letters_has_the_terms_of_the_twin() -> None:
    """Alone, next to letters that it might join, and next to itself."""
    codes = [*range(0x80, 0xD800), *range(0xF900, 0x10000), *range(0x10000, 0x11400)]
    codes += [*range(0x1B000, 0x1B300), *range(0x1D100, 0x1D800), *range(0x1E000, 0x1FB00), 0x2F800, 0xE0100, 0x10FFFF]
    texts = [f"A{chr(code)}o{chr(code)}{chr(code)} {chr(code)}\u1100{chr(code)}" for code in codes]
    fast = terms_of(pa.array(texts))
    for text, terms in zip(texts, fast.to_pylist()):
        assert terms == sorted({term_id(word) for word in tokenize(text)}), ascii(text)


def test_most_texts_are_folded_by_characters() -> None:
    texts = pa.array(["Café “ΚΑΦΈΣ” – кафе 😀 Straße…", "東京 나가 ½ ™", "Cafe\u0301", "हिन्दी"])
    folded, done = fold_characters(texts)
    assert done.tolist() == [True, True, False, False]
    assert [text.lower().split() for text in folded.to_pylist()[:2]] == [
        tokenize(text) for text in texts.to_pylist()[:2]
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fire, FIRE & fire!", ["fire", "fire", "fire"]),
        ("rock'n'roll", ["rock", "n", "roll"]),
        ("snake_case 3rd", ["snake_case", "3rd"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("İstanbul", ["i̇stanbul"]),
        ("ﬁre ﬀ", ["fire", "ff"]),
        ("ＦＩＲＥ　２", ["fire", "2"]),
        ("Cafe\u0301 Café", ["café", "café"]),
        ("東京 кафе ΚΑΦΈΣ", ["東京", "кафе", "καφέσ"]),
        ("हिन्दी", ["हिन्दी"]),
        ("m² Ⅷ ½", ["m2", "viii", "1", "2"]),
        ("x①", ["x1"]),
        ("a\0b", ["a", "b"]),
        ("a\ud800b", ["a", "b"]),
        ("😀 !?", []),
        ("", []),
    ],
)
def test_words_of_named_cases(text: str, words: list[str]) -> None:
    assert tokenize(text) == words


def test_a_term_twice_is_one_term() -> None:
    assert terms_of(pa.array(["tea Tea TEA", "té TÉ"])).to_pylist() == [[term_id("tea")], [term_id("té")]]


def test_ids_are_signed_ascending_and_never_change() -> None:
    assert (term_id("coffee"), term_id("東京")) == (-1177195816154372949, slow.term_id("東京"))
    words = [f"w{n}" for n in range(1000)]
    (terms,) = terms_of(pa.array([" ".join(words)])).to_pylist()
    assert terms == sorted(map(slow.term_id, words))
    assert terms[0] < 0 < terms[-1]


def test_a_slice_of_a_column_gives_its_own_rows() -> None:
    texts = pa.array(["one", None, "two trois", "", "fünf"])
    assert terms_of(texts.slice(1, 3)).to_pylist() == terms_of(texts).to_pylist()[1:4]
    assert terms_of(texts.slice(0, 0)).to_pylist() == []


def test_a_column_of_one_megabyte_texts() -> None:
    texts = pa.array(["ab " * 350_000, "äb " * 260_000, "x" * 1_048_576, "a" + "\u0301\u0316" * 260_000])
    assert [len(terms) for terms in terms_of(texts).to_pylist()] == [1, 1, 1, 1]


def test_long_runs_of_marks_are_broken_up_and_stay_in_one_word() -> None:
    run = "a" + "\u0301\u0316" * 5_000
    assert len(tokenize(f"{run} b")) == 2
    assert tokenize(run) == tokenize(f"x {run}")[1:]
    assert tokenize("a" + "\u0301\u0316" * 400) == slow.words("a" + "\u0301\u0316" * 400)


def test_other_columns_are_refused() -> None:
    with pytest.raises(TypeError, match="int64"):
        terms_of(pa.array([1]))


def test_the_properties_include_the_version_of_unicode() -> None:
    assert TOKENIZER["unicode"] and TOKENIZER["version"] == 1
    assert hash_word.py_func is not None
