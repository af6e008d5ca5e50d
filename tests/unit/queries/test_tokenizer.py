"""Words and term ids against their slow twins, in scripts that break naive tokenizers, by pinned Unicode tables."""

import hashlib
import json
import random
import re
import runpy
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.kernels.parsing.texts import hash_word
from pststream.queries.text.tokenizer import fold_characters, term_id, terms_of
from pststream.queries.text.words import (
    TOKENIZER,
    UNICODE,
    hide_unassigned,
    is_assigned,
    is_emoji,
    is_ignorable,
    is_in_words,
    tokenize,
)
from tests.fuzz.cases import examples
from tests.oracles import text as slow

ASCII = st.text(st.characters(max_codepoint=127), max_size=60)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
TRICKY_CHARACTERS = (
    "aA_1 -\t\n\0\u0130ßſﬁﬀＡ１²½Ⅷ\u0301\u0316\u0345\u034fñ나가\u1100\u1161日本語عربيहिन्दी\u200d\u00a0😀"
    "\u200b\u00ad\ufe0f\ufe0e\u20e3#*👍🏽🇩🇪❤©™℠☎🏴\U000e0067\U000e007f\u0307İⅰ々ーｶﾞゝかか\u3099กดีำຂກ្ကမ္\u17b4\u3164〇〱🫨𠀀\u302a"
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
        ("İstanbul I\u0307 \u0131", ["istanbul", "i", "ı"]),
        ("ﬁre ﬀ", ["fire", "ff"]),
        ("ＦＩＲＥ　２", ["fire", "2"]),
        ("Cafe\u0301 Café", ["café", "café"]),
        ("東京 кафе ΚΑΦΈΣ", ["東", "京", "кафе", "καφέσ"]),
        ("हिन्दी", ["हिन्दी"]),
        ("m² Ⅷ ½", ["m2", "viii", "1", "2"]),
        ("x①", ["x1"]),
        ("a\0b", ["a", "b"]),
        ("a\ud800b", ["a", "b"]),
        ("😀 !?", ["😀"]),
        ("❤\ufe0f ☎ © ® 1", ["❤", "☎", "1"]),
        ("Acme™ Acme\u200bInc so\u00adft", ["acme", "acme", "inc", "soft"]),
        ("👍🏽👨\u200d👩\u200d👧🏳\ufe0f\u200d🌈", ["👍", "👨", "👩", "👧", "🏳", "🌈"]),
        ("🇩🇪🇫🇷🇩 1\ufe0f\u20e3#\u20e3", ["🇩🇪", "🇫🇷", "🇩", "1\u20e3", "＃\u20e3"]),
        ("🏴\U000e0067\U000e0062\U000e007f🏴\U000e0067", ["🏴\U000e0067\U000e0062\U000e007f", "🏴"]),
        ("参加者はカード々", ["参", "加", "者", "は", "カ", "ー", "ド", "々"]),
        ("ก็ดีนะ ພາສາ ភាសា မြန်", ["ก็", "ดี", "น", "ะ", "ພ", "າ", "ສ", "າ", "ភា", "សា", "မြ", "န်"]),
        ("한국어 사람", ["한국어", "사람"]),
        ("\u0301 \u093e", []),
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
    assert TOKENIZER["unicode"] and TOKENIZER["version"] == 2
    assert hash_word.py_func is not None


ROOT = Path(__file__).parents[3]
CODES = sys.maxunicode + 1
WORDS_OF_ALL_CHARACTERS = "9f954881d53c3eecb51da9edf23ae376fc6e6941cff8aee67c0651744216f368"
WORDS_OF_RANDOM_TEXTS = "e3796393b5add89e1121c7165235764e63891993f83faeb90a9a2552bff62dfe"

with_pinned_python = pytest.mark.skipif(unicodedata.unidata_version != UNICODE, reason="a Python with other tables")


def digest(words: Iterator[list[str]]) -> str:
    """Hash lists of words."""
    hashed = hashlib.sha256()
    for one in words:
        hashed.update("\n".join([*one, ""]).encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def texts_of_all_characters() -> Iterator[str]:
    """Yield each character before a letter, after an accent, and before two marks out of order."""
    for start in range(0, CODES, 64):
        block = map(chr, range(start, start + 64))
        yield " ".join(f"{c}b e\u0301{c}\u0316\u0301{c}" for c in block)


def random_texts() -> Iterator[str]:
    """Yield texts of characters from blocks that compose, decompose, fold or have grown since 14.0.0."""
    rng = random.Random(7)
    blocks = (
        (0, 0x250), (0x300, 0x530), (0x600, 0x700), (0x900, 0xE00), (0x1100, 0x1200), (0x1AB0, 0x1B00),
        (0x1E00, 0x2200), (0x2C00, 0x2E00), (0xA640, 0xAB70), (0xAC00, 0xAD00), (0xF900, 0x10000), (0x10D00, 0x11700),
        (0x11F00, 0x11F60), (0x1D400, 0x1D800), (0x1DF00, 0x1E100), (0x1E4D0, 0x1E960), (0x1F100, 0x1F700),
        (0x2EBF0, 0x2EE60), (0x31350, 0x323B0),
    )  # fmt: skip
    for _ in range(30_000):
        chosen = rng.choices(blocks, k=3)
        yield "".join(chr(rng.randrange(*rng.choice(chosen))) for _ in range(rng.randrange(1, 25)))


def test_words_of_all_characters_are_those_of_the_pinned_version() -> None:
    assert digest(map(tokenize, texts_of_all_characters())) == WORDS_OF_ALL_CHARACTERS


def test_words_of_random_texts_are_those_of_the_pinned_version() -> None:
    assert digest(map(tokenize, random_texts())) == WORDS_OF_RANDOM_TEXTS


@with_pinned_python
def test_the_tables_are_those_of_the_python_that_has_the_pinned_version() -> None:
    for code in range(CODES):
        category = unicodedata.category(chr(code))
        assert is_assigned(code) == (category != "Cn")
        assert is_in_words(code) == (category[0] in "LM" or category == "Nd" or code == ord("_"))


@with_pinned_python
def test_hiding_unassigned_characters_changes_no_word() -> None:
    for text in random_texts():
        known = "".join(c for c in text if is_assigned(ord(c)) or not (is_emoji(ord(c)) or is_ignorable(ord(c))))
        assert tokenize(hide_unassigned(known)) == tokenize(known)


@given(st.text(max_size=40))
def test_the_characters_that_are_hidden_are_the_unassigned_ones(text: str) -> None:
    assert hide_unassigned(text) == "".join(c if is_assigned(ord(c)) else " " for c in text)


def test_the_script_writes_the_table_of_its_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(ROOT / "infra" / "make_unicode_tables.py"))
    script["main"].__globals__["FOLDER"] = tmp_path
    script["main"]()
    (written,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"{written}\n"
    tables = json.loads(written.read_text("utf-8"))
    assert tables["unicode"] == unicodedata.unidata_version
    if tables["unicode"] == UNICODE:
        assert written.read_bytes() == (ROOT / "pststream" / "queries" / "text" / written.name).read_bytes()


def test_the_examples_of_the_page_are_true() -> None:
    page = (ROOT / "docs" / "words.md").read_text("utf-8")
    rows = re.findall(r"^\|\w+\|`(.*?)`\|(.*)\|$", page, re.MULTILINE)
    assert len(rows) > 12
    for text, words in rows:
        assert tokenize(text) == re.findall("`(.*?)`", words), text
