"""All ways to count the frequent terms of many regions give the answers of the slow twin."""

import random

import numpy as np
import pytest

from benchmarks.scenarios.answers.frequent_terms import COUNT_WAYS
from benchmarks.support.answers import table_terms
from pststream.base.utc_times import from_micros, iso
from pststream.kernels import region_counts
from pststream.kernels.region_counts import make_grid
from pststream.search import answerers, region_terms
from pststream.search.object_snapshot import LAST_KEY
from pststream.search.question_batch import region_arrays, take_regions
from pststream.search.region_terms import group_regions
from tests.fuzz.cases import seeds
from tests.unit.search.worlds import (
    Row,
    asked,
    check_answers,
    snapshot_of,
    some_objects,
    some_point,
    some_question,
    some_region,
)

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
    rows = some_objects(rnd, 400)
    snapshot = snapshot_of(tmp_path, rows, [90, 300])
    records = neighbours(rnd, rows, 80)
    assert check_answers(snapshot, rows, "frequent_terms", records) > 100
    check_answers(snapshot, rows, "frequent_terms", records[:40], rows[220][0])
    check_answers(snapshot, rows, "frequent_terms", [some_question(rnd, "frequent_terms", rows) for _ in range(40)])
    withdrawn = np.array([row[0] for row in rows[50:350:3]], np.int64)
    left = [row for row in rows if row[0] not in set(withdrawn.tolist())]
    check_answers(snapshot.without(withdrawn), left, "frequent_terms", records[:40], LAST_KEY)


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
    monkeypatch.setattr(region_terms, "answer_regions", lambda *all: alone.append(len(all[-1])) or single(*all))
    monkeypatch.setattr(answerers, "answer_regions", COUNT_WAYS["shared"])
    check_answers(snapshot, rows, "frequent_terms", records)
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


def test_some_regions_of_a_batch() -> None:
    rnd = random.Random(10)
    rows = some_objects(rnd, 30)
    regions = [one.parsed.region for one in asked([some_question(rnd, "frequent_terms", rows) for _ in range(30)])]
    chosen = np.array([7, 3, 3, 29])
    expected = region_arrays([regions[place] for place in chosen.tolist()])
    for mine, theirs in zip(take_regions(region_arrays(regions), chosen), expected):
        assert mine.tolist() == theirs.tolist()


def test_tables_grow() -> None:
    owners, ids, counts = np.full(4, -1, np.int32), np.zeros(4, np.int64), np.zeros(4, np.int32)
    owners[1], ids[1], counts[1] = 0, 5, 3
    owners, ids, counts = region_counts._longer(owners, ids, counts)
    (slot,) = np.flatnonzero(owners >= 0).tolist()
    assert len(owners) == 8 and (owners[slot], ids[slot], counts[slot]) == (0, 5, 3)
