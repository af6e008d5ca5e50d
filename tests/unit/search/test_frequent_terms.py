"""Frequent terms by all ways to count them, from lists of cells and from rows, are those of the slow twin."""

import random
from collections import Counter

import numpy as np
import pytest

from benchmarks.scenarios.answers.frequent_terms import COUNT_WAYS
from benchmarks.support.answers import table_terms
from pststream.base.utc_times import from_micros, iso
from pststream.kernels import region_counts
from pststream.kernels.questions import count_terms, frequent_terms
from pststream.kernels.questions.codes import unpack_numbers
from pststream.kernels.region_counts import make_grid
from pststream.search import answerers, region_terms
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.region_terms import group_regions
from tests.fuzz.cases import seeds
from tests.oracles.questions import logged
from tests.unit.search.worlds import (
    Row,
    asked,
    check_answer,
    check_answers,
    snapshot_of,
    some_objects,
    some_point,
    some_question,
    some_region,
)
from tests.worlds import some_stop_words

WAYS = [name for name in COUNT_WAYS if name != "single"]


def some_box(rnd: random.Random) -> list[float]:
    """Draw a box: a point, a small one around a point, a large one."""
    lon, lat = some_point(rnd)
    wide = rnd.choice((0.0, 0.05, 1.0, 60.0))
    return [max(lon - wide, -180.0), max(lat - wide, -90.0), min(lon + wide, 180.0), min(lat + wide, 90.0)]


def neighbours(rnd: random.Random, rows: list[Row], count: int) -> list[dict]:
    """Draw questions that have few windows, about overlapping boxes; some about other regions."""
    windows = [(rnd.choice((None, "90m", "8h", "40h")), iso(from_micros(rnd.choice(rows)[2]))) for _ in range(3)]
    drawn = []
    for number in range(count):
        window, as_of = rnd.choice(windows)
        question = {"question_id": "q", "kind": "frequent_terms", "window": window, "as_of": as_of}
        question |= some_stop_words(f"{question} {number}")
        region = some_region(rnd) if number % 5 == 0 else {"bbox": some_box(rnd)}
        drawn.append({**question, **region, "k": rnd.choice((1, 2, 5, 20, 10_000))})
    return drawn


@pytest.fixture(params=WAYS)
def way(request, monkeypatch) -> str:
    """Answer questions by one of the ways, in small groups with few candidates."""
    monkeypatch.setattr(answerers, "answer_regions", COUNT_WAYS[request.param])
    monkeypatch.setattr(region_terms, "SIZES", (16, 4))
    monkeypatch.setattr(region_terms, "LEAST", 2)
    monkeypatch.setattr(region_terms, "CANDIDATES", (3, 1))
    monkeypatch.setattr(table_terms, "GROUP", 3)
    monkeypatch.setattr(table_terms, "FIRST_SLOTS", 4)
    return request.param


@seeds(3)
def test_answers_are_those_of_the_twin(way, seed, tmp_path) -> None:
    rnd = random.Random(seed)
    rows = some_objects(rnd, 240)
    snapshot = snapshot_of(tmp_path, rows, [60, 180])
    records = neighbours(rnd, rows, 60)
    assert check_answers(snapshot, rows, "frequent_terms", records) > 100
    check_answers(snapshot, rows, "frequent_terms", records[:20], rows[130][0])
    check_answers(snapshot, rows, "frequent_terms", [some_question(rnd, "frequent_terms", rows) for _ in range(20)])
    withdrawn = np.array([row[0] for row in rows[30:210:3]], np.int64)
    left = [row for row in rows if row[0] not in set(withdrawn.tolist())]
    check_answers(snapshot.without(withdrawn), left, "frequent_terms", records[:20], LAST_KEY)


def test_a_word_that_all_objects_have_and_one_that_none_has(way, tmp_path) -> None:
    rnd = random.Random(5)
    rows = [(*row[:5], f"everywhere w{number % 30}") for number, row in enumerate(some_objects(rnd, 200))]
    check_answers(snapshot_of(tmp_path, rows, [60]), rows, "frequent_terms", neighbours(rnd, rows, 40))


def test_no_objects_and_no_questions(way, tmp_path) -> None:
    rnd = random.Random(6)
    rows = some_objects(rnd, 20)
    records = neighbours(rnd, rows, 20)
    assert check_answers(snapshot_of(tmp_path, rows), rows, "frequent_terms", []) == 0
    (tmp_path / "empty").mkdir()
    assert check_answers(snapshot_of(tmp_path / "empty", []), [], "frequent_terms", records) == 0


def test_most_answers_of_neighbours_are_proven_together(tmp_path, monkeypatch) -> None:
    rnd = random.Random(7)
    words = [f"w{number}" for number in range(300)]
    weights = [1 / (1 + number) for number in range(300)]
    rows = [(*row[:3], rnd.uniform(0, 9), rnd.uniform(0, 9), " ".join(rnd.choices(words, weights, k=9)))
            for row in some_objects(rnd, 6000)]  # fmt: skip
    snapshot = snapshot_of(tmp_path, rows, [2000])
    records = []
    for _ in range(100):
        lon, lat = rnd.uniform(1, 6), rnd.uniform(1, 6)
        box = {"bbox": [lon, lat, lon + 3, lat + 3]}
        records.append({"question_id": "q", "kind": "frequent_terms", "window": None, "k": 5, **box})
    alone = []
    single = region_terms.answer_regions
    monkeypatch.setattr(region_terms, "answer_regions", lambda *all: alone.append(len(all[4])) or single(*all))
    monkeypatch.setattr(answerers, "answer_regions", COUNT_WAYS["shared"])
    answered, objects = answerers.ANSWERERS["frequent_terms"](snapshot, asked(records)), [logged(*row) for row in rows]
    for place in range(0, 100, 10):
        check_answer(answered, place, objects, records[place], LAST_KEY)
    assert alone[0] < 10


def test_words_of_one_count_are_not_counted_over_a_grid(tmp_path, monkeypatch) -> None:
    """Thousands of words are candidates: the regions are asked about one by one."""
    rnd = random.Random(8)
    rows = [(*row[:5], f"a{number} b{number} c{number}") for number, row in enumerate(some_objects(rnd, 300))]
    counted = []
    monkeypatch.setattr(region_terms, "count_rows", lambda *all: counted.append(all))
    monkeypatch.setattr(answerers, "answer_regions", COUNT_WAYS["shared"])
    records = [{"question_id": "q", "kind": "frequent_terms", "bbox": [-180, -90, 180, 90], "k": 5}] * 10
    check_answers(snapshot_of(tmp_path, rows), rows, "frequent_terms", records)
    assert not counted


def test_edges_that_are_as_close_as_numbers_can_be() -> None:
    least = np.nextafter(0.0, 1.0)
    boxes = np.array([[0.0, 0.0, 0.0, 0.0], [least, 0.0, least, 180.0], [-180.0, -90.0, 180.0, 90.0]])
    for chosen in (boxes[:1], boxes[:2], boxes):
        grid = make_grid(chosen)
        assert (grid.lon[grid.west] == chosen[:, 0]).all() and (grid.lat[grid.south] == chosen[:, 1]).all()
        assert (grid.lon[grid.east] > chosen[:, 2]).all() and (grid.lat[grid.north] > chosen[:, 3]).all()
        for edges, starts in ((grid.lon, grid.lon_starts), (grid.lat, grid.lat_starts)):
            places = np.unique([*edges[:-1], *np.nextafter(edges[1:], -np.inf), *np.linspace(edges[0], edges[-1])])
            places = places[places < edges[-1]]  # numbers so small are rounded to the last edge, which is in no strip
            strips = [
                region_counts._strip(edges, starts, region_counts._scale(edges), place) for place in places.tolist()
            ]
            assert strips == np.searchsorted(edges, places, "right").tolist()


def test_groups_have_one_window_and_at_most_so_many_regions() -> None:
    rng = np.random.default_rng(9)
    boxes, windows = rng.random((100, 4)), rng.integers(0, 3, (100, 2))
    rows = np.flatnonzero(rng.random(100) < 0.8)
    groups = group_regions(boxes, windows, rows, 7)
    assert sorted(np.concatenate(groups).tolist()) == rows.tolist()
    assert all(len(group) <= 7 and len(np.unique(windows[group], axis=0)) == 1 for group in groups)
    assert not group_regions(boxes, windows, np.empty(0, np.int64), 7)


WORLD = {"question_id": "q", "kind": "frequent_terms", "bbox": [-180.0, -90.0, 180.0, 90.0]}


@pytest.fixture(params=[(4, 2), (40, 5), (100, 20)], ids=str)
def small_lists(request, monkeypatch) -> None:
    """Let cells of few objects have lists, some of which leave out terms that are answers."""
    least, rare = request.param
    monkeypatch.setattr(frequent_terms, "LISTED_ROWS", least)
    monkeypatch.setattr(frequent_terms, "RARE", rare)


def with_many_words(rnd: random.Random, rows: list[Row]) -> list[Row]:
    """Give each object words of a steep law, some of them of its half of the world only."""
    words = [f"w{number}" for number in range(200)]
    weights = [1 / (1 + number) for number in range(200)]
    return [
        (*row[:5], " ".join([*rnd.choices(words, weights, k=rnd.randrange(7)), f"half{row[3] > 0}{rnd.randrange(9)}"]))
        for row in rows
    ]


def questions(rnd: random.Random, rows: list[Row], count: int) -> list[dict]:
    """Draw questions, a third of them about the world."""
    drawn = [some_question(rnd, "frequent_terms", rows) for _ in range(count)]
    return [{**one, "k": rnd.choice((1, 3, 10, 50))} if number % 3 else {**WORLD, **kept(one)}
            for number, one in enumerate(drawn)]  # fmt: skip


def kept(question: dict) -> dict:
    return {name: question[name] for name in ("window", "as_of", "k") if name in question}


def test_counts_from_lists(tmp_path, small_lists) -> None:
    rnd = random.Random(7)
    rows = with_many_words(rnd, some_objects(rnd, 2000))
    snapshot = snapshot_of(tmp_path, rows, [700, 1500])
    assert all(len(segment.cells) for segment in snapshot.segments)
    asked = questions(rnd, rows, 60)
    assert check_answers(snapshot, rows, "frequent_terms", asked) > 200
    for up_to_key in (rows[650][0], rows[1600][0]):
        check_answers(snapshot, rows, "frequent_terms", asked[:20], up_to_key)
    withdrawn = np.array([row[0] for row in rows[100:900:3]], np.int64)
    left = [row for row in rows if row[0] not in set(withdrawn.tolist())]
    check_answers(snapshot.without(withdrawn), left, "frequent_terms", asked[:20], LAST_KEY)


def test_terms_that_some_lists_lack(tmp_path, monkeypatch) -> None:
    """Regions of one and of two pieces: the objects of such terms are counted in the cells of these lists alone."""
    monkeypatch.setattr(frequent_terms, "LISTED_ROWS", 20)
    monkeypatch.setattr(frequent_terms, "RARE", 6)
    unlisted = []

    def count_unlisted(*arguments):
        unlisted.append(count_terms.count_unlisted(*arguments))
        return unlisted[-1]

    monkeypatch.setattr(answerers, "count_unlisted", count_unlisted)
    rnd = random.Random(11)
    rows = with_many_words(rnd, some_objects(rnd, 3000))
    # Some of a word of few slices of time, in all cells.
    rows = [(*row[:5], row[5] + " burst" * (900 < number < 1500)) for number, row in enumerate(rows)]
    snapshot = snapshot_of(tmp_path, rows, [1700])
    boxes = ([-180.0, -90.0, 180.0, 90.0], [-100.0, -50.0, 120.0, 80.0], [100.0, -80.0, -20.0, 85.0])
    times = [row[2] for row in rows]
    asked = []
    for box in boxes:
        for _ in range(12):
            as_of = iso(from_micros(rnd.choice(times)))
            window = rnd.choice((None, "8h", "30h", "90h"))
            asked.append({**WORLD, "bbox": box, "k": rnd.choice((1, 3, 6, 10)), "as_of": as_of, "window": window})
    check_answers(snapshot, rows, "frequent_terms", asked)
    assert sum(numbers.sum() for numbers in unlisted) > 100


def test_rows_beyond_the_sample(tmp_path) -> None:
    """Once a quarter of the rows is counted, terms of fewer objects are left out: also with lists as they are built."""
    rnd = random.Random(12)
    rows = with_many_words(rnd, some_objects(rnd, 12_000))
    snapshot = snapshot_of(tmp_path, rows, [7000])
    assert all(len(segment.cells) for segment in snapshot.segments)
    check_answers(snapshot, rows, "frequent_terms", questions(rnd, rows, 20))


def test_a_few_questions_at_a_time(tmp_path, small_lists, monkeypatch) -> None:
    rnd = random.Random(8)
    rows = with_many_words(rnd, some_objects(rnd, 500))
    snapshot = snapshot_of(tmp_path, rows, [100, 300])
    asked = questions(rnd, rows, 30)
    for room in (1, 100):
        monkeypatch.setattr(answerers, "ROOM", room)
        check_answers(snapshot, rows, "frequent_terms", asked)


def test_segments_without_a_common_word_return_all_counts(tmp_path) -> None:
    """No segment has many of the word that is first in all: each has more of others."""
    rows = []
    for segment in range(30):
        for number in range(40):
            texts = f"own{segment}a own{segment}b" + " everywhere" * (number < 3)
            rows.append((len(rows) + 1, f"o{len(rows)}", 10**15 + len(rows), 1.0, 1.0, texts))
    snapshot = snapshot_of(tmp_path, rows, range(40, 1200, 40))
    check_answers(snapshot, rows, "frequent_terms", [{**WORLD, "k": k} for k in (1, 2, 5, 99)])


def test_lists_have_the_counts_of_their_cells(tmp_path, small_lists) -> None:
    rnd = random.Random(9)
    rows = with_many_words(rnd, some_objects(rnd, 900))
    (segment,) = ObjectSnapshot(snapshot_of(tmp_path, rows).segments).segments
    number, every = 0, Counter()
    row_terms = unpack_numbers(segment.row_terms[:-1])
    assert len({cell >> 40 for cell in segment.cells.tolist()}) == {4: 3, 40: 2, 100: 1}[frequent_terms.LISTED_ROWS]
    for place, cell in enumerate(segment.cells.tolist()):
        slices, level, prefix = frequent_terms.DIVISIONS[cell >> 40], cell >> 32 & 0xFF, cell & 0xFFFFFFFF
        inside = (segment.codes.astype(np.int64) >> (32 - 2 * level)) == prefix
        assert inside.sum() >= segment.listed_rows[cell >> 40] == frequent_terms.LISTED_ROWS * slices
        assert level % 2 == 0
        assert segment.cell_lists[place] == number
        times = segment.slice_times[:: frequent_terms.SLICES // slices]
        for low, high in zip(times, times[1:]):
            chosen = np.flatnonzero(inside & (segment.times >= low) & (segment.times < high))
            terms = [row_terms[segment.offsets[row] : segment.offsets[row + 1]] for row in chosen]
            counts = Counter(np.concatenate([np.empty(0, np.int32), *terms]).tolist())
            own = slice(segment.list_offsets[number], segment.list_offsets[number + 1])
            bound = segment.list_bounds[number]
            listed = dict(zip(segment.list_terms[own].tolist(), segment.list_counts[own].tolist()))
            assert listed == {term: count for term, count in counts.items() if count > bound}
            assert bound == len(chosen) // frequent_terms.RARE
            number += 1
            every.update(listed)
    assert every and number == len(segment.list_bounds) == segment.cell_lists[-1]


@pytest.mark.parametrize("common", ["", "all", "all some"])
def test_large_regions_leave_out_terms_of_few_objects(tmp_path, common) -> None:
    """Also where these are the answer: no term of a segment has more than seven objects."""
    rnd = random.Random(10)
    rows = [
        (*row[:5], f"{common if number % 3 else ''} few{number // 7} one{number}")
        for number, row in enumerate(some_objects(rnd, 10_000))
    ]
    snapshot = snapshot_of(tmp_path, rows)
    check_answers(snapshot, rows, "frequent_terms", [{**WORLD, "k": k} for k in (1, 2)])
