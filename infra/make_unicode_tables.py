"""Write the pinned Unicode tables of the tokenizer: assigned characters, those of words, emoji, and so on.

    python infra/make_unicode_tables.py      run by the Python whose version of Unicode is to be pinned

Python knows no properties such as Emoji, so those come from the package `regex`. Its version of Unicode may be newer:
emoji that the pinned version does not have are emoji, too.

A new version of Unicode changes the words of texts, so it is a new version of the tokenizer
(pststream/queries/text/words.py).
"""

import json
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import regex

FOLDER = Path(__file__).parents[1] / "pststream" / "queries" / "text"
CODES = sys.maxunicode + 1
SCRIPTS_WITHOUT_BLANKS = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
NO_EMOJI = "#*0123456789©®™"
LENGTH_AND_ITERATION = "\u30fc\u3031\u3032\u3033\u3034\u3035"
"""Marks of kana that Unicode counts to no script."""


def main() -> None:
    """Write the tables of this Python's version of Unicode."""
    tables = {
        "unicode": unicodedata.unidata_version,
        "assigned": ranges(lambda character: unicodedata.category(character) != "Cn"),
        "word": ranges(is_word_character),
        "mark": ranges(lambda character: unicodedata.category(character)[0] == "M"),
        "without_blanks": ranges(is_of_script_without_blanks),
        "emoji": ranges(lambda character: has("Emoji")(character) and character not in NO_EMOJI),
        "ignorable": ranges(has("Default_Ignorable_Code_Point")),
    }
    path = FOLDER / f"unicode-{unicodedata.unidata_version}.json"
    path.write_text(json.dumps(tables, separators=(",", ":")) + "\n", "utf-8")
    print(path)


def is_word_character(character: str) -> bool:
    """Whether words contain this character: a letter, a mark, a decimal digit or `_`."""
    category = unicodedata.category(character)
    return category[0] in "LM" or category == "Nd" or character == "_"


def is_of_script_without_blanks(character: str) -> bool:
    """Whether this character is of a script that does not part words by blanks, and no mark."""
    if not is_word_character(character) or unicodedata.category(character)[0] == "M":
        return False
    return character in LENGTH_AND_ITERATION or any(has(f"Script={name}")(character) for name in SCRIPTS_WITHOUT_BLANKS)


@cache
def has(name: str) -> Callable[[str], bool]:
    """Return a function that says whether a character has a property of Unicode."""
    return frozenset(regex.findall(rf"\p{{{name}}}", "".join(map(chr, range(CODES))))).__contains__


def ranges(contains: Callable[[str], bool]) -> list[int]:
    """Return the code points at which membership changes, ascending: in from the first, out from the second, …"""
    inside = [contains(chr(code)) for code in range(CODES)]
    return [code for code in range(CODES) if inside[code] != (code > 0 and inside[code - 1])]


if __name__ == "__main__":
    main()
