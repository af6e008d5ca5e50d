"""Object segments are a function of their files, rebuilt when torn, grouped, and find the rows of the twin."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.names import NEVER_US
from pststream.kernels.questions.codes import unpack_numbers
from pststream.kernels.questions.frequent_terms import LEAST_OBJECTS
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.search import object_segments, term_weights, wanted_rows
from pststream.search.object_cache import LARGE_BYTES, LARGE_ROWS, ObjectCache, ObjectFile, group_files, settled_groups
from pststream.search.object_segments import ObjectSegment, build_object_segment
from pststream.search.wanted_rows import find_wanted_rows, make_piece_questions, object_columns
from pststream.state.tables import TABLES
from tests.fuzz.cases import seeds
from tests.oracles.matching import matches_of
from tests.unit.search.worlds import (
    STEP_US,
    Row,
    object_table,
    snapshot_of,
    some_objects,
    some_point,
)
from tests.worlds import LATS, LONS, WORDS

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


def asked_lon(lon: float, lat: float) -> float:
    """The longitude that stands for all of a point."""
    return 180.0 if lon == -180 or abs(lat) == 90 else lon


def equal(one: ObjectSegment, other: ObjectSegment) -> bool:
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def test_a_segment_has_every_object_and_every_word(rows) -> None:
    segment = build_object_segment(object_table(rows))
    by_key = {row[0]: row for row in rows}
    row_terms, postings = unpack_numbers(segment.row_terms[:-1]), unpack_numbers(segment.postings[:-1])
    for place, key in enumerate(segment.keys.tolist()):
        _, object_id, ts, lon, lat, text = by_key.pop(key)
        assert bytes(segment.ids[segment.id_offsets[place] : segment.id_offsets[place + 1]]).decode() == object_id
        assert (segment.times[place], *segment.places[place].tolist()) == (ts, asked_lon(lon, lat), lat)
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


def test_settled_groups_stay_as_they_are_and_have_a_bounded_size() -> None:
    sizes = ((1_000, 1), (100_000, 1), (300_000, 1), (2 * LARGE_ROWS, 1), (1_000, LARGE_BYTES // 2))
    for seed, (most_rows, most_bytes) in enumerate(sizes):
        rnd = random.Random(seed)
        files: list[ObjectFile] = []
        before: list[tuple[ObjectFile, ...]] = []
        for number in range(400):
            files.append(ObjectFile(f"{number:03}", rnd.randrange(1, most_rows), number, rnd.randrange(most_bytes)))
            settled, groups = settled_groups(files), group_files(files)
            assert settled[: len(before)] == before
            assert [tuple(file.address for file in group) for group in settled] == groups[: len(settled)]
            assert max(sum(files[int(address)].bytes for address in group) for group in groups) <= LARGE_BYTES
            left = sum(file.rows for file in files) - sum(file.rows for group in settled for file in group)
            assert left < 2 * LARGE_ROWS
            before = settled
        assert before or (most_rows, most_bytes) == (1_000, 1)
        assert most_bytes == 1 or max(map(len, before)) > 1


def test_weights_are_of_a_layout_of_segments() -> None:
    """They are arrays by place of the rows and terms of a segment, which another layout may order differently."""
    assert object_segments.LAYOUT in term_weights.LAYOUT


ANY = 2**63 - 2


def some_piece(rnd: random.Random, rows: list[Row]) -> dict[str, Any]:
    lon, lat = some_point(rnd)
    box = rnd.choice(([lon - 0.05, lat - 0.05, lon + 0.05, lat + 0.05], [-180.0, -90.0, 180.0, 90.0], None))
    west, south, east, north = box or [
        *map(min, lattice := [rnd.choices(c, k=2) for c in (LONS, LATS)]),
        *map(max, lattice),
    ]
    clauses = [sorted({term_id(w) for w in rnd.choices((*WORDS, "nowhere"), k=rnd.choice((1, 1, 2, 3)))}) for _ in "12"]
    created = rnd.choice(rows)[2] + rnd.choice((0, 0, 1, -STEP_US))
    return {
        "west": west, "south": south, "east": east, "north": north, "circle": None, "polygon": None,
        "clauses": clauses[: rnd.choice((1, 2))], "subscription_key": 1, "created_at": created,
        "end_at": rnd.choice((NEVER_US, NEVER_US, rnd.choice(rows)[2], created + 1)),
    }  # fmt: skip


def batch_of(pieces: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema([TABLES["worker_index"].schema.field(name) for name in wanted_rows.QUESTION_COLUMNS])
    return pa.RecordBatch.from_pylist(pieces, schema)


def wanted_keys(segment: ObjectSegment, pieces: list[dict[str, Any]], up_to_key: int = ANY) -> list[int] | None:
    found = find_wanted_rows(segment, make_piece_questions(batch_of(pieces), up_to_key))
    return None if found is None else sorted(segment.keys[found].tolist())


@seeds(6)
def test_wanted_objects_are_those_of_the_twin(tmp_path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(wanted_rows, "ROW_WORK", 10**9)
    monkeypatch.setattr(wanted_rows, "FIRST_QUESTIONS", 7)
    rnd = random.Random(seed)
    rows = some_objects(rnd, 400)
    (segment,) = snapshot_of(tmp_path, rows).segments
    terms = object_table(rows).column("terms").to_pylist()
    things = [
        {"ts": ts, "lon": asked_lon(lon, lat), "lat": lat, "terms": own}
        for (_, _, ts, lon, lat, _), own in zip(rows, terms)
    ]
    for count in (0, 1, 3, 40):
        pieces = [some_piece(rnd, rows) for _ in range(count)]
        up_to_key = rnd.choice((ANY, rows[200][0]))
        expected = sorted({rows[place][0] for place, _ in matches_of(things, pieces, [])})
        assert wanted_keys(segment, pieces, up_to_key) == [key for key in expected if key <= up_to_key]


def test_the_columns_are_those_of_the_table_as_they_are_matched(tmp_path) -> None:
    rows = some_objects(random.Random(3), 200)
    (segment,) = snapshot_of(tmp_path, rows).segments
    chosen = np.flatnonzero(segment.keys % 3 == 0)
    columns = object_columns(segment, chosen)
    schema = pa.schema([TABLES["objects"].schema.field(name) for name in columns])
    made = pa.RecordBatch.from_pydict(columns, schema).to_pylist()
    stored = [row for row in object_table(rows).select(list(columns)).to_pylist() if row["object_key"] % 3 == 0]
    assert sorted(made, key=lambda row: row["object_key"]) == [
        {**row, "lon": asked_lon(row["lon"], row["lat"]), "terms": sorted(row["terms"])} for row in stored
    ]


@pytest.mark.parametrize("first_questions", [1, 500])
def test_questions_of_more_work_than_reading_are_not_asked(
    tmp_path, monkeypatch: pytest.MonkeyPatch, first_questions: int
) -> None:
    monkeypatch.setattr(wanted_rows, "FIRST_QUESTIONS", first_questions)
    rows = some_objects(random.Random(4), 300)
    (segment,) = snapshot_of(tmp_path, rows).segments
    world = {"west": -180, "south": -90, "east": 180, "north": 90, "created_at": 0, "end_at": NEVER_US}
    frequent = {**world, "clauses": [[term_id(word) for word in WORDS]]}
    absent = {**world, "clauses": [[term_id("nowhere")]]}
    assert wanted_keys(segment, [frequent] * 100) is None
    assert wanted_keys(segment, [absent] * 100) == []
    assert len(wanted_keys(segment, [{**frequent, "clauses": [[term_id(WORDS[0])]]}])) > 0
