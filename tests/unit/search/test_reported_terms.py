"""The terms that objects have in reports are those of the twin, and only texts without blanks cost bytes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.arrow_columns import BREAKS
from pststream.kernels.questions.codes import unpack_numbers
from pststream.queries.text.phrases import are_of_runs
from pststream.queries.text.words import is_one_of_a_run, ranges_without_blanks, reported_words, tokenize
from pststream.search import reported_terms
from pststream.search.answerers import ANSWERERS
from pststream.search.object_segments import build_object_segment
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.reported_terms import reported_objects
from pststream.search.term_weights import TermWeights
from tests.fuzz.cases import examples
from tests.oracles import twin_expressions
from tests.oracles.text import term_id
from tests.unit.search import worlds
from tests.unit.search.worlds import object_table, snapshot_of

PIECES = (
    "tea",
    " ",
    "新",
    "年",
    "快乐",
    "、",
    "ก็",
    "ดี",
    "カー",
    "𠮷",
    "มาก",
    "한국",
    "हिन्दी",
    "🔥",
    "ﬁ",
    "\u0301",
    "\u200b",
)
PARTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=7).map("".join), min_size=1, max_size=3)


def stored(texts: list[list[str]]) -> pa.Table:
    """Rows of `objects` whose texts are joined from parts."""
    rows = [(1 << 32 | n, f"o{n}", n, (37.0 * n) % 90, 0.0, " ".join(parts)) for n, parts in enumerate(texts)]
    table = object_table(rows)
    breaks = [np.cumsum([len(part.encode()) + 1 for part in parts[:-1]]).tolist() or None for parts in texts]
    place = table.schema.get_field_index("text_breaks")
    return table.set_column(
        place, table.schema.field(place), pa.array(breaks, BREAKS).cast(table.schema.field(place).type)
    )


@given(st.lists(PARTS, min_size=1, max_size=6), st.integers(1, 3))
@examples(60)
def test_terms_are_those_of_the_twin(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], block: int
) -> None:
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("terms")
    pq.write_table(stored(texts), folder / "0.parquet")
    place = TermWeights(cache_dir=str(folder / "cache"), cache_bytes=10**9)
    segment = build_object_segment(stored(texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reported_terms, "_ROWS", block)
        (counted,) = reported_objects(ObjectSnapshot([segment], [(str(folder / "0.parquet"),)], place)).segments
    own = unpack_numbers(counted.row_terms[:-1])
    for row, key in enumerate(counted.keys.tolist()):
        numbers = own[counted.offsets[row] : counted.offsets[row + 1]].tolist()
        words = [counted.word(number) for number in numbers]
        parts = texts[key & 0xFFFF]
        assert sorted(words) == sorted(twin_expressions.reported_words(twin_expressions.parts_of(*parts)))
        assert sorted(words) == sorted(reported_words(parts))
        assert [term_id(word) for word in words] == counted.terms[numbers].tolist()


def test_only_segments_with_characters_without_blanks_are_derived(tmp_path: Path) -> None:
    rows = [(1 << 32 | n, f"o{n}", n, 0.0, 0.0, text) for n, text in enumerate(("tea 한국 🔥", "हिन्दी", "新年"))]
    snapshot = snapshot_of(tmp_path, rows, [2])
    counted = reported_objects(snapshot)
    assert counted.segments[0] is snapshot.segments[0] and counted.segments[1] is not snapshot.segments[1]
    assert reported_objects(snapshot) is counted and reported_objects(counted) is counted
    entries = [one.parent.name for one in (tmp_path / "cache").glob("segments-*/*")]
    assert sum("-reports-" in one for one in entries) == 1 and sum("-texts-" in one for one in entries) == 1


def test_characters_of_all_scripts_are_found_in_bytes() -> None:
    edges = ranges_without_blanks()
    assert edges[0] > 0x7FF
    codes = sorted({code for edge in edges for code in (edge - 1, edge) if code <= 0x10FFFF} | {ord("a"), 0xE9})
    words = [chr(code) for code in codes]
    data = "".join(words).encode()
    offsets = np.cumsum([0, *(len(word.encode()) for word in words)])
    of_runs = are_of_runs(offsets, np.frombuffer(data, np.uint8))
    assert of_runs.tolist() == [is_one_of_a_run(word) for word in words]
    assert are_of_runs(np.zeros(2, np.int64), np.frombuffer(b"x", np.uint8)).tolist() == [False]


def test_a_pair_counts_the_objects_that_its_keyword_finds(tmp_path: Path) -> None:
    texts = ("新年快乐", "新年", "新 年!", "年新", "新x年")
    rows = [(1 << 32 | n, f"o{n}", n, 0.0, 0.0, text) for n, text in enumerate(texts)]
    snapshot, box = snapshot_of(tmp_path, rows), {"question_id": "q", "bbox": [-1, -1, 1, 1]}
    terms = ANSWERERS["frequent_terms"](snapshot, worlds.asked([box | {"kind": "frequent_terms", "k": 1}]))
    assert (terms.columns["term"].to_pylist(), terms.columns["count"].to_pylist()) == (["新年"], [3])
    found = ANSWERERS["range"](snapshot, worlds.asked([box | {"keywords": "新年"}]))
    assert len(found.question) == 3 and tokenize("新年") == ["新", "年"]
