"""Fill the column `term` of a vocabulary with words found in the newest texts; a term found in none stays null.

The words are for people: the tables identify terms by their hashes only.
"""

import pyarrow as pa

from pststream.base import names
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices

MAX_TEXTS, MAX_BYTES = 20_000, 4_000_000
"""Texts of the newest objects that are searched for words, and their bytes, at most."""


def fill_words(home: Home, vocabulary: pa.Table) -> pa.Table:
    """Return the vocabulary with `term` filled for words of the newest texts; it stays null for other terms."""
    words: dict[int, str] = {}
    for text in _newest_texts(home):
        words |= {term_id(word): word for word in tokenize(text)}
    column = [words.get(term) for term in vocabulary.column("term_id").to_pylist()]
    return vocabulary.set_column(vocabulary.schema.get_field_index("term"), "term", pa.array(column, pa.string()))


def _newest_texts(home: Home) -> list[str]:
    files = sorted(list_data_files(home, names.OBJECTS), key=lambda file: file.high.get("object_key", 0))
    texts: list[str] = []
    left = MAX_BYTES
    for path, rows in reversed(addresses_and_rows(home, names.OBJECTS, files)):
        for batch in read_slices([Slice(path, 0, rows)], ["text"]):
            column = batch.column("text").slice(0, MAX_TEXTS - len(texts))
            for text in column.drop_null():
                if (left := left - len(text.as_buffer())) < 0:
                    return texts
                texts.append(text.as_py())
            if len(texts) >= MAX_TEXTS:
                return texts
    return texts
