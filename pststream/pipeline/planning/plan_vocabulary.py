"""The words of a plan's terms, for people: tables know terms by their hashes."""

import pyarrow as pa

from pststream import names
from pststream.state.data_files import data_files, located
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices
from pststream.text.tokenizer import term_id
from pststream.text.words import tokenize

MOST_TEXTS, MOST_BYTES = 20_000, 4_000_000
"""Of the newest objects' texts, that are looked through."""


def with_words(home: Home, vocabulary: pa.Table) -> pa.Table:
    """The vocabulary of a plan with the words that the newest texts have; others stay null."""
    words: dict[int, str] = {}
    for text in _newest_texts(home):
        words |= {term_id(word): word for word in tokenize(text)}
    found = [words.get(term) for term in vocabulary.column("term_id").to_pylist()]
    return vocabulary.set_column(vocabulary.schema.get_field_index("term"), "term", pa.array(found, pa.string()))


def _newest_texts(home: Home) -> list[str]:
    files = sorted(data_files(home, names.OBJECTS), key=lambda file: file.high.get("object_key", 0))
    texts: list[str] = []
    left = MOST_BYTES
    for path, rows in reversed(located(home, names.OBJECTS, files)):
        for batch in read_slices([Slice(path, 0, rows)], ["text"]):
            column = batch.column("text").slice(0, MOST_TEXTS - len(texts))
            for text in column.drop_null():
                if (left := left - len(text.as_buffer())) < 0:
                    return texts
                texts.append(text.as_py())
            if len(texts) >= MOST_TEXTS:
                return texts
    return texts
