"""Object segments: a function of their files, rebuilt when torn, shared by processes, grouped while files are small."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.kernels.questions.codes import unpack_numbers
from pststream.kernels.questions.frequent_terms import LEAST_OBJECTS
from pststream.queries.text.words import tokenize
from pststream.search import object_segments, term_weights
from pststream.search.object_cache import LARGE_BYTES, LARGE_ROWS, ObjectCache, ObjectFile, group_files, settled_groups
from pststream.search.object_segments import ObjectSegment, build_object_segment
from tests.unit.search.worlds import check_answers, object_table, snapshot_of, some_objects, some_question

KINDS = ("range", "knn", "topk", "frequent_terms")
BUILD = """
import os, sys
from pststream.search.object_cache import ObjectCache
if sys.argv[3] == "killed":
    os.replace = lambda source, target: os.kill(os.getpid(), 9)
print(ObjectCache(sys.argv[1], 10**9).segment((sys.argv[2],)).keys.sum())
"""


@pytest.fixture(scope="module")
def rows() -> list:
    return some_objects(random.Random(1), 500)


@pytest.fixture(scope="module")
def file(rows, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("objects") / "part.parquet"
    pq.write_table(object_table(rows), path)
    return str(path)


def equal(one: ObjectSegment, other: ObjectSegment) -> bool:
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def test_a_segment_has_every_object_and_every_word(rows) -> None:
    segment = build_object_segment(object_table(rows))
    by_key = {row[0]: row for row in rows}
    row_terms, postings = unpack_numbers(segment.row_terms[:-1]), unpack_numbers(segment.postings[:-1])
    for place, key in enumerate(segment.keys.tolist()):
        _, object_id, ts, lon, lat, text = by_key.pop(key)
        assert bytes(segment.ids[segment.id_offsets[place] : segment.id_offsets[place + 1]]).decode() == object_id
        assert (segment.times[place], *segment.places[place].tolist()) == (ts, lon, lat)
        terms = row_terms[segment.offsets[place] : segment.offsets[place + 1]].tolist()
        assert {segment.word(term) for term in terms} == set(tokenize(text))
    assert not by_key
    for term in range(len(segment.terms)):
        listed = postings[segment.posting_offsets[term] : segment.posting_offsets[term + 1]].tolist()
        has = [term in row_terms[low:high] for low, high in zip(segment.offsets, segment.offsets[1:])]
        assert listed == np.flatnonzero(has).tolist()
    assert segment.find_terms(np.append(segment.terms, 5)).tolist() == [*range(len(segment.terms)), -1]
    objects = np.diff(segment.posting_offsets)
    for tier, least in enumerate((*LEAST_OBJECTS, 1)):
        own = slice(*segment.tiers[tier : tier + 2])
        assert (objects[own] >= least).all() and (objects[own.stop :] < least).all()
        assert (np.diff(segment.terms[own]) > 0).all()
    assert (np.diff(segment.codes.astype(np.int64)) >= 0).all()
    assert not any(array.flags.writeable for array in segment)


def test_a_segment_depends_on_the_rows_alone(rows) -> None:
    whole = object_table(rows)
    parts = pa.concat_tables([whole.slice(0, 17), whole.slice(17)])
    assert equal(build_object_segment(whole), build_object_segment(parts))


def test_no_objects_and_no_words() -> None:
    assert len(build_object_segment(object_table([])).keys) == 0
    silent = build_object_segment(object_table([(1, "a", 5, 0.0, 0.0, "...")]))
    assert (len(silent.terms), silent.bounds.tolist()) == (0, [5, 5, 1, 1])


def test_texts_may_have_more_than_two_gibibytes() -> None:
    # The zeros are never read, so they take no memory.
    content = np.zeros(1_500_000_000, np.uint8)
    content[:6] = list(b"coffee")
    offsets = pa.py_buffer(np.array([0, 6, len(content)], np.int32))
    texts = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(content))
    rows = object_table([(key, f"o{key}", key, 0.0, 0.0, text) for key, text in enumerate(("coffee", "...") * 2)])
    place = rows.schema.get_field_index("text")
    segment = build_object_segment(rows.set_column(place, "text", pa.chunked_array([texts, texts])))
    assert [segment.word(term) for term in range(len(segment.terms))] == ["coffee"]
    assert segment.object_ids(np.arange(4)).to_pylist() == ["o0", "o1", "o2", "o3"]


@pytest.mark.parametrize("keep", [0, 8, 100, -1])
def test_a_torn_file_is_built_again(file, tmp_path, keep) -> None:
    cache = ObjectCache(str(tmp_path), 10**9)
    before = [array.copy() for array in cache.segment((file,))]
    (entry,) = cache.folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:keep])
    again = ObjectCache(str(tmp_path), 10**9).segment((file,))
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(before, again, strict=True))


def build_apart(folder: Path, file: str, mode: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", BUILD, str(folder), file, mode], stdout=subprocess.PIPE, text=True)


def test_a_process_may_be_killed_while_it_builds(file, tmp_path, rows) -> None:
    killed = build_apart(tmp_path, file, "killed")
    assert killed.wait() == -9
    cache = ObjectCache(str(tmp_path), 10**9)
    (left,) = cache.folder.iterdir()
    assert left.name.startswith("."), "an entry has its name before it is whole"
    assert cache.segment((file,)).keys.sum() == sum(row[0] for row in rows)


def test_two_processes_may_build_at_once(file, tmp_path, rows) -> None:
    both = [build_apart(tmp_path, file, "whole") for _ in range(2)]
    assert [int(one.communicate()[0]) for one in both] == [sum(row[0] for row in rows)] * 2
    assert len(list(ObjectCache(str(tmp_path), 10**9).folder.iterdir())) == 1


def test_the_bound_of_the_cache_counts_index_segments_too(file, tmp_path) -> None:
    other = tmp_path / "segments-4-of-the-index" / "entry"
    other.parent.mkdir()
    other.write_bytes(bytes(100_000))
    os.utime(other, (1, 1))
    ObjectCache(str(tmp_path), 120_000).segment((file,))
    assert not other.exists()


def test_compacted_files_give_the_same_answers(rows, tmp_path) -> None:
    """`maintain` writes the rows of several files as one."""
    rnd = random.Random(2)
    for name, cuts in (("small", range(20, 500, 20)), ("merged", [250]), ("one", [])):
        (tmp_path / name).mkdir()
        snapshot = snapshot_of(tmp_path / name, rows, list(cuts))
        for kind in KINDS:
            check_answers(snapshot, rows, kind, [some_question(rnd, kind, rows) for _ in range(20)])


def sizes_of(rows: list[int]) -> list[int]:
    files = [ObjectFile(str(number), count, number) for number, count in enumerate(rows)]
    return [sum(rows[int(address)] for address in group) for group in group_files(reversed(files))]


def test_small_files_are_built_together() -> None:
    assert sizes_of([10] * 13) == [80, 40, 10]
    assert sizes_of([LARGE_ROWS, 10, 10, LARGE_ROWS]) == [LARGE_ROWS, 20, LARGE_ROWS]
    assert sizes_of([]) == []


def test_groups_of_older_files_stay_as_files_are_added() -> None:
    rnd = random.Random(3)
    counts = [rnd.randrange(1, 300_000) for _ in range(60)]
    built, before = 0, set()
    for number in range(1, 61):
        groups = set(group_files([ObjectFile(f"{n:03}", c, n) for n, c in enumerate(counts[:number])]))
        assert len(groups) <= 4 + 2 * sum(counts[:number]) / LARGE_ROWS + np.log(number) / np.log(1.5)
        built += sum(counts[int(address)] for group in groups - before for address in group)
        before = groups
    assert built <= 8 * sum(counts)


def test_settled_groups_stay_as_they_are() -> None:
    for seed, greatest in enumerate((1_000, 100_000, 300_000, 2 * LARGE_ROWS)):
        rnd = random.Random(seed)
        files: list[ObjectFile] = []
        before: list[tuple[ObjectFile, ...]] = []
        for number in range(400):
            files.append(ObjectFile(f"{number:03}", rnd.randrange(1, greatest), number))
            settled = settled_groups(files)
            assert settled[: len(before)] == before
            addresses = [tuple(file.address for file in group) for group in settled]
            assert addresses == group_files(files)[: len(settled)]
            left = sum(file.rows for file in files) - sum(file.rows for group in settled for file in group)
            assert left < 2 * LARGE_ROWS
            before = settled
        assert before or greatest == 1_000


def test_groups_of_files_have_a_bounded_size() -> None:
    rnd = random.Random(5)
    files: list[ObjectFile] = []
    before: list[tuple[ObjectFile, ...]] = []
    for number in range(100):
        files.append(ObjectFile(f"{number:02}", rnd.randrange(1, 1000), number, rnd.randrange(LARGE_BYTES // 2)))
        settled = settled_groups(files)
        assert settled[: len(before)] == before
        sizes = [sum(files[int(address)].bytes for address in group) for group in group_files(files)]
        assert max(sizes) <= LARGE_BYTES
        before = settled
    assert len(before) > 20 and max(map(len, before)) > 1


def test_weights_are_of_a_layout_of_segments() -> None:
    """They are arrays by place of the rows and terms of a segment, which another layout may order differently."""
    assert object_segments.LAYOUT in term_weights.LAYOUT
