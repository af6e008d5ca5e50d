"""Counts of terms from lists of cells, from rows, and from a few questions at a time are those of the slow twin."""

import random
from collections import Counter

import numpy as np
import pytest

from pststream.base.utc_times import from_micros, iso
from pststream.kernels.questions import count_terms, frequent_terms
from pststream.kernels.questions.codes import unpack_numbers
from pststream.search import answerers
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from tests.unit.search.worlds import Row, check_answers, snapshot_of, some_objects, some_question

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
