"""Write the pinned Unicode tables of the tokenizer: the assigned characters and those that words consist of.

    python infra/make_unicode_tables.py      run by the Python whose version of Unicode is to be pinned

A new version of Unicode changes the words of texts, so it is a new version of the tokenizer
(pststream/queries/text/words.py).
"""

import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "pststream" / "queries" / "text"
CODES = sys.maxunicode + 1


def main() -> None:
    """Write the tables of this Python's version of Unicode."""
    tables = {
        "unicode": unicodedata.unidata_version,
        "assigned": ranges(lambda character: unicodedata.category(character) != "Cn"),
        "word": ranges(is_word_character),
    }
    path = FOLDER / f"unicode-{unicodedata.unidata_version}.json"
    path.write_text(json.dumps(tables, separators=(",", ":")) + "\n", "utf-8")
    print(path)


def is_word_character(character: str) -> bool:
    """Whether words contain this character: a letter, a mark, a decimal digit or `_`."""
    category = unicodedata.category(character)
    return category[0] in "LM" or category == "Nd" or character == "_"


def ranges(contains: Callable[[str], bool]) -> list[int]:
    """Return the code points at which membership changes, ascending: in from the first, out from the second, …"""
    inside = [contains(chr(code)) for code in range(CODES)]
    return [code for code in range(CODES) if inside[code] != (code > 0 and inside[code - 1])]


if __name__ == "__main__":
    main()
