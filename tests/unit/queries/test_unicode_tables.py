"""The pinned Unicode tables give the same words in each Python, those of Unicode 14.0.0."""

import hashlib
import json
import random
import runpy
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.queries.text.words import UNICODE, hide_unassigned, is_assigned, is_in_words, tokenize

ROOT = Path(__file__).parents[3]
CODES = sys.maxunicode + 1
WORDS_OF_ALL_CHARACTERS = "90c609559fdd303b12984e550935fc2f8434f3dcda252e51f8191a827efb49ee"
WORDS_OF_RANDOM_TEXTS = "340e0ff2dd7d7f9be1d41589fb43f135f27d7ec388817c1db2322ba3549e491b"

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
        assert tokenize(hide_unassigned(text)) == tokenize(text)


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
