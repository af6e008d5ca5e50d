"""Answers of questions are those of the slow twin: random worlds, edge cases, each way to read, arrays."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base import names
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.kernels.matching.contains_point import haversine
from pststream.kernels.questions.codes import (
    LEVELS,
    number_at,
    pack_numbers,
    place_codes,
    plain_number_at,
    unpack_numbers,
)
from pststream.kernels.questions.question_arrays import choose_clauses, first_row_of
from pststream.kernels.questions.rows_in_regions import choose_paths
from pststream.kernels.questions.scores import DEGREE, greatest_place_score, least_cosine, least_haversine_of_cell
from pststream.queries.shapes.contract import matched_lon
from pststream.search import answerers, best_objects, object_snapshot
from pststream.search.answer_blocks import bound_rows, slice_window
from pststream.search.answerers import ANSWERERS
from pststream.search.best_objects import PointQuestions, find_nearest_objects, find_scored_objects, order_rows
from pststream.search.object_segments import first_rows_of_cells
from pststream.search.object_snapshot import LAST_KEY, ObjectSnapshot
from pststream.search.question_batch import clauses_of, region_arrays
from pststream.search.verified_questions import verified_of
from tests.fuzz.cases import examples, seeds
from tests.oracles.questions import answer, logged
from tests.oracles.twin_expressions import words_of
from tests.unit.search.worlds import (
    Row,
    asked,
    check_answers,
    snapshot_of,
    some_objects,
    some_question,
    weights_of,
)
from tests.worlds import LATS, LONS, START, WORDS

KINDS = ("range", "knn", "topk", "frequent_terms")


@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(rnd=st.randoms(use_true_random=False), count=st.integers(0, 120), cuts=st.lists(st.integers(0, 120), max_size=3))
def test_answers_are_those_of_the_twin(tmp_path_factory, kind, rnd, count, cuts) -> None:
    rows = some_objects(rnd, count)
    folder = tmp_path_factory.mktemp("world")
    snapshot = snapshot_of(folder, rows, [cut for cut in cuts if cut <= count])
    check_answers(snapshot, rows, kind, [some_question(rnd, kind, rows) for _ in range(12)])


@pytest.mark.parametrize("kind", KINDS)
@seeds(3)
def test_answers_of_a_larger_world(tmp_path, kind, seed) -> None:
    rnd = random.Random(seed)
    rows = some_objects(rnd, 3000)
    snapshot = snapshot_of(tmp_path, rows, [900, 1000, 2500])
    assert check_answers(snapshot, rows, kind, [some_question(rnd, kind, rows) for _ in range(60)]) > 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most_rows", [1, 300])
def test_all_objects_are_verified_a_few_at_a_time(tmp_path, monkeypatch, kind, most_rows) -> None:
    """As if few objects counted: no question with something to verify asks for the best ones."""
    monkeypatch.setattr(best_objects, "MOST_SEARCHED", (0, 1 << 40))
    monkeypatch.setattr(best_objects, "MOST_ROWS", most_rows)
    monkeypatch.setattr(answerers, "COUNTED", 3)
    rnd = random.Random(9)
    rows = some_objects(rnd, 300)
    snapshot = snapshot_of(tmp_path, rows, [100, 120])
    wheres = [{"level": {"gte": 2}}, {"offense": {"exists": True}}, {"level": {"gte": 2}, "checked": {"exists": False}}]
    records = [some_question(rnd, kind, rows) | {"where": rnd.choice(wheres)} for _ in range(25)]
    assert check_answers(snapshot, rows, kind, records) > 15


@pytest.mark.parametrize("kind", KINDS)
def test_a_version_has_the_objects_up_to_a_key(tmp_path, kind) -> None:
    rnd = random.Random(5)
    rows = some_objects(rnd, 400)
    snapshot = snapshot_of(tmp_path, rows, [150])
    for up_to_key in (0, rows[0][0], rows[149][0], rows[150][0], rows[260][0], rows[-1][0]):
        check_answers(snapshot, rows, kind, [some_question(rnd, kind, rows) for _ in range(10)], up_to_key)


@seeds(4)
def test_scores_by_weights_of_words(tmp_path, seed) -> None:
    """Some words have the same weight, some are unknown; frequent words have lists of short texts."""
    rnd = random.Random(seed)
    rows = some_objects(rnd, 3000)
    counts = {word.lower(): rnd.choice((1, 7, 7, 400, 2000)) for word in rnd.sample(WORDS, len(WORDS) - 2)}
    statistics = (2000, {word: count for word, count in counts.items() if words_of(word) == [word]})
    snapshot = snapshot_of(tmp_path, rows, [900, 1000, 2500], weights_of(tmp_path, statistics))
    questions = [some_question(rnd, "topk", rows) for _ in range(60)]
    assert check_answers(snapshot, rows, "topk", questions, statistics=statistics) > 200
    assert (tmp_path / "cache").exists()


MANY = " OR ".join(["coffee", "tea", "free", "cheap", "fire", "taxi", "park", "jazz"])
WORLD_QUESTION = {"question_id": "q", "bbox": [-180.0, -90.0, 180.0, 90.0]}


def first_clauses(objects, clauses, questions) -> np.ndarray:
    firsts = clauses.clause_offsets[questions]
    return np.where(firsts < clauses.clause_offsets[questions + 1], firsts, -1)


def last_clauses(objects, clauses, questions) -> np.ndarray:
    lasts = clauses.clause_offsets[questions + 1] - 1
    return np.where(lasts >= clauses.clause_offsets[questions], lasts, -1)


def all_rows(objects, clauses, questions) -> np.ndarray:
    return np.full(len(questions), -1)


@pytest.mark.parametrize("path", [first_clauses, last_clauses, all_rows])
@pytest.mark.parametrize("kind", ["range", "knn"])
def test_paths_give_the_same_answers(tmp_path, monkeypatch, kind, path) -> None:
    monkeypatch.setattr(best_objects, "choose_clauses", path)
    monkeypatch.setattr(answerers, "choose_paths", lambda objects, _, clauses, asked: path(objects, clauses, asked))
    rnd = random.Random(4)
    rows = some_objects(rnd, 900)
    snapshot = snapshot_of(tmp_path, rows, [600])
    questions = [some_question(rnd, kind, rows) for _ in range(30)]
    check_answers(snapshot, rows, kind, [*questions, *({**one, "keywords": MANY} for one in questions[:5])])


@pytest.mark.parametrize("kind", ["range", "knn"])
def test_lists_that_are_walked_together(tmp_path, kind) -> None:
    """Words of many objects that never, rarely and often meet; a list much longer than the other is not walked."""
    rnd = random.Random(6)
    texts = {number: f"w{number % 2} v{number % 7} all" for number in range(5000)}
    texts |= dict.fromkeys(range(1000, 5000, 500), "w0 w1 v3 all rare")
    rows = [(*row[:5], texts[number]) for number, row in enumerate(some_objects(rnd, 5000))]
    snapshot = snapshot_of(tmp_path, rows)
    for keywords in ("w0 w1", "w0 w1 v3", "w0 all", "rare all", "(w0 OR w1) v3", "w0 AND (w1 OR v2) AND all"):
        drawn = [{**some_question(rnd, kind, rows), "keywords": keywords, "window": None} for _ in range(3)]
        if kind == "range":
            drawn.append({**WORLD_QUESTION, "keywords": keywords})
        check_answers(snapshot, rows, kind, drawn)


def test_rows_of_a_small_region_are_read_instead_of_many_lists(tmp_path) -> None:
    rnd = random.Random(5)
    rows = [(*row[:5], f"common {row[5]}") for row in some_objects(rnd, 2000)]
    (segment,) = snapshot_of(tmp_path, rows).segments
    few = {"question_id": "q", "bbox": [17.9, 59.2, 17.95, 59.25], "keywords": MANY}
    questions = asked([few, {**few, "keywords": "coffee"}, {**few, "keywords": "nowhere"}, {**few, "keywords": None}])
    clauses = clauses_of(questions).within(segment)
    regions = region_arrays([question.parsed.region for question in questions])
    numbers = np.arange(4)
    assert choose_clauses(segment.objects, clauses, numbers).tolist() == [0, 1, -2, -1]
    assert choose_paths(segment.objects, regions, clauses, numbers).tolist() == [-1, 1, -2, -1]


@pytest.mark.parametrize(("below", "width"), [(5, 3), (1 << 24, 3), ((1 << 24) + 1, 4)])
def test_packed_numbers(below, width) -> None:
    numbers = np.array([0, 1, 255, 256, 65_536, below - 1], np.int32)[: 1 if below == 5 else None]
    packed = pack_numbers(numbers, below)
    assert packed.shape == (len(numbers) + 1, width)
    for read in (number_at, plain_number_at):
        assert [read(packed, at) for at in range(len(numbers))] == numbers.tolist()
    assert unpack_numbers(packed[:-1]).tolist() == numbers.tolist()
    assert pack_numbers(np.empty(0, np.int32), 0).shape == (1, 3)


T = to_micros(START)
EVERYWHERE = [-180, -90, 180, 90]
KINDS_OF_OBJECTS = [{"kind": "range", "bbox": EVERYWHERE}, {"kind": "knn", "point": {"lon": 1, "lat": 1}, "k": 3}]


def thing(number: int, ts: int = 0, lon: float = 0.0, lat: float = 0.0, text: str = "all") -> tuple:
    return (number, f"o{number}", T + ts, lon, lat, text)


def ids(snapshot, record: dict) -> list[str]:
    record = {"question_id": "q", **record}
    return ANSWERERS[record["kind"]](snapshot, asked([record])).columns["object_id"].to_pylist()


def at(micros: int) -> str:
    return str(iso(from_micros(T + micros)))


@pytest.mark.parametrize("question", KINDS_OF_OBJECTS)
def test_a_window_begins_after_its_start_and_has_its_end(tmp_path, question) -> None:
    snapshot = snapshot_of(tmp_path, [thing(1, 0), thing(2, 1), thing(3, 10_000_000), thing(4, 10_000_001)], [2])
    bounded = {**question, "as_of": at(10_000_000)}
    assert ids(snapshot, {**bounded, "window": "10s"}) == ["o3", "o2"]
    assert ids(snapshot, {**bounded, "window": "0s"}) == []
    assert ids(snapshot, {**bounded}) == ["o3", "o2", "o1"]
    assert ids(snapshot, {**question, "as_of": at(-1)}) == []
    assert ids(snapshot, {**question, "as_of": "2199-01-01T00:00:00Z"})[0] == "o4"
    assert ids(snapshot, question)[0] == "o4", "without as_of, the greatest ts stored"


def test_ties_go_to_the_newest_then_to_the_last_in_the_log(tmp_path) -> None:
    rows = [thing(1, 5), thing(2, 9), thing(3, 5), thing(4, 9), thing(5, 7)]
    for cuts in ([], [1], [2, 3]):
        folder = tmp_path / str(cuts)
        folder.mkdir()
        snapshot = snapshot_of(folder, rows, cuts)
        for k in range(1, 6):
            expected = ["o4", "o2", "o5", "o3", "o1"][:k]
            assert ids(snapshot, {"kind": "knn", "point": {"lon": 1, "lat": 1}, "k": k}) == expected
            assert ids(snapshot, {"kind": "range", "bbox": EVERYWHERE, "limit": k}) == expected


def test_the_most_recent_objects(tmp_path) -> None:
    rows = [thing(1, 5), thing(2, 9), thing(3, 5), thing(4, 9), thing(5, 7)]
    snapshot = snapshot_of(tmp_path, rows, [2])
    for count, expected in ((1, ["o4"]), (3, ["o4", "o2", "o5"]), (4, ["o4", "o2", "o5", "o3"]), (9, 5)):
        found = ids(snapshot, {"kind": "knn", "point": {"lon": 0, "lat": 0}, "k": 10, "window": {"objects": count}})
        assert found == expected or len(found) == expected
    past = {"kind": "knn", "point": {"lon": 0, "lat": 0}, "k": 10, "window": {"objects": 2}, "as_of": at(7)}
    assert ids(snapshot, past) == ["o5", "o3"]


def test_equal_counts_are_ordered_by_the_bytes_of_the_word(tmp_path) -> None:
    rows = [thing(1, text="b é a z aa"), thing(2, text="é b common"), thing(3, text="common Ω 10 9")]
    for cuts in ([], [1], [1, 2]):
        folder = tmp_path / str(cuts)
        folder.mkdir()
        snapshot = snapshot_of(folder, rows, cuts)
        question = {"question_id": "q", "kind": "frequent_terms", "bbox": EVERYWHERE}
        check_answers(snapshot, rows, "frequent_terms", [{**question, "k": k} for k in (*range(1, 10), 99)])
        answer = ANSWERERS["frequent_terms"](snapshot, asked([{**question, "k": 5}])).columns
        assert answer["term"].to_pylist() == ["b", "common", "é", "10", "9"]
        assert answer["count"].to_pylist() == [2, 2, 2, 1, 1]


def test_scores(tmp_path) -> None:
    texts = ["coffee cake", "coffee", "coffee cake free", "tea", "cake cake cake"]
    rows = [thing(number, lon=number / 10, text=text) for number, text in enumerate(texts, start=1)]
    snapshot = snapshot_of(tmp_path, rows, [2])
    question = {"question_id": "q", "kind": "topk", "point": {"lon": 0, "lat": 0}, "keywords": "Coffee cake", "k": 9}
    for alpha in (0, 0.5, 1):
        for scale in (None, 1.0, 30_000.0):
            record = {**question, "alpha": alpha, "distance_scale_m": scale}
            assert check_answers(snapshot, rows, "topk", [record, {**record, "keywords": "cake nothing"}]) == 4 + 3
    by_text = ANSWERERS["topk"](snapshot, asked([{**question, "alpha": 0}]))
    assert by_text.columns["object_id"].to_pylist()[:2] == ["o1", "o3"]
    assert by_text.columns["score"].to_pylist()[0] == 1.0
    assert by_text.columns["term_statistics_version"].to_pylist() == [0] * 4
    assert check_answers(snapshot, rows, "topk", [{**question, "alpha": 0.5, "keywords": "nothing at all"}]) == 0


def test_words_with_a_common_beginning_are_compared_whole(tmp_path) -> None:
    words = [f"sameprefix{number:03}" for number in range(60)] + ["sameprefi", "sameprefix", "same", "é", "東京"]
    rows = [thing(number, text=" ".join(words[number::3])) for number in (2, 1, 0)]
    question = {"question_id": "q", "kind": "frequent_terms", "bbox": EVERYWHERE}
    snapshot = snapshot_of(tmp_path, rows, [1, 2])
    check_answers(snapshot, rows, "frequent_terms", [{**question, "k": k} for k in (1, 2, 3, 4, 5, 30, 62, 63, 65)])


FINDERS = {"knn": (find_nearest_objects, 2, 1.0), "topk": (find_scored_objects, 3, -1.0)}


def boundary_of(rows: list[Row], window: dict | None, end: int) -> tuple[int, int]:
    """Return the ts and key of the object before the window, among the objects up to the key `end`."""
    newest_first = sorted(((row[2], row[0]) for row in rows if row[0] <= end), reverse=True)
    before = newest_first[window["objects"] :] if window else []
    return before[0] if before else (names.NO_TIME, LAST_KEY)


@seeds(3)
@pytest.mark.parametrize("kind", FINDERS)
def test_best_objects_are_those_of_the_twin(tmp_path, kind, seed) -> None:
    find, column, sign = FINDERS[kind]
    rnd = random.Random(seed)
    rows = some_objects(rnd, 1500)
    snapshot = snapshot_of(tmp_path, rows, [100, 700, 1300])
    end = rows[1400][0]
    stream_time = max(row[2] for row in rows if row[0] <= end)
    records = []
    for _ in range(60):
        window = rnd.choice([None, *({"objects": size} for size in (1, 60, 300, 1000, 5000))])
        fixed = {"k": rnd.randrange(1, 41), "window": window, "as_of": None, "where": None}
        records.append(some_question(rnd, kind, rows) | fixed)
    points = [(record["point"]["lon"], record["point"]["lat"]) for record in records]
    scales = [(record.get("alpha", 0), record.get("distance_scale_m") or 25_000.0) for record in records]
    lon, lat = np.array(points, np.float64).T
    questions = PointQuestions(
        points=np.column_stack([matched_lon(lon, lat), lat]),
        k=np.array([record["k"] for record in records]),
        clauses=clauses_of(asked(records)),
        after=np.array([boundary_of(rows, record["window"], end) for record in records]),
        up_to=np.array([(stream_time, end)] * len(records)),
        scales=np.array(scales, np.float64),
        farthest=np.array(
            [np.inf if most is None else most for most in (one.get("max_distance_m") for one in records)], np.float32
        ),
        verified=verified_of(asked(records)),
    )
    best = find(snapshot, questions)
    objects, keys = [logged(*row) for row in rows], {row[1]: row[0] for row in rows}
    assert len(best.question) > 300
    for place, record in enumerate(records):
        expected = answer(objects, record, end)
        mine = best.question == place
        assert best.key[mine].tolist() == [keys[row[0]] for row in expected], record
        assert best.ts[mine].tolist() == [row[1] for row in expected]
        assert (sign * best.value[mine]).tolist() == pytest.approx(
            [row[column] for row in expected], rel=1e-6, abs=1e-6
        )
    segment, row = best.place >> 32, best.place & 0xFFFFFFFF
    assert [snapshot.segments[one].keys[at] for one, at in zip(segment, row)] == best.key.tolist()


@pytest.mark.parametrize(
    ("cuts", "most_sorted"),
    [([], 2), ([100, 700, 1300], 1_000_000), ([1499], 2), (list(range(0, 1500, 150)), 1_000_000)],
)
def test_boundaries_of_count_windows(tmp_path, monkeypatch, cuts, most_sorted) -> None:
    monkeypatch.setattr(object_snapshot, "_SORTED_OBJECTS", most_sorted)
    monkeypatch.setattr(object_snapshot, "_BUCKETS", 50)
    rows = some_objects(random.Random(8), 1500)
    snapshot = snapshot_of(tmp_path, rows, cuts)
    for end, as_of in (
        (rows[-1][0], rows[-1][2] + 10**9),
        (rows[1400][0], rows[1400][2]),
        (rows[1400][0], rows[300][2]),
    ):
        counted = sorted(((row[2], row[0]) for row in rows if row[0] <= end and row[2] <= as_of), reverse=True)
        sizes = [1000, 1, 2, 60, 299, 60, 1399, 5000]
        together = snapshot.before_most_recent(sizes, as_of, end)
        alone = [ObjectSnapshot(snapshot.segments).before_most_recent([size], as_of, end)[0] for size in sizes]
        assert together.tolist() == np.array(alone).tolist()
        for size, boundary in zip(sizes, together.tolist(), strict=True):
            assert [one for one in counted if one > tuple(boundary)] == counted[:size]


def test_objects_are_counted_once_for_all_count_windows(tmp_path, monkeypatch) -> None:
    rows, passes = some_objects(random.Random(8), 1500), []
    snapshot = snapshot_of(tmp_path, rows, [700])
    count_by_time = object_snapshot.count_by_time
    monkeypatch.setattr(object_snapshot, "count_by_time", lambda *given: passes.append(1) or count_by_time(*given))
    newest_first = sorted(((row[2], row[0]) for row in rows), reverse=True)
    boundaries = snapshot.before_most_recent(range(1, 1500), newest_first[0][0])
    assert len(passes) == len(snapshot.segments)
    assert boundaries.tolist() == [[ts, key - 1] for ts, key in newest_first[:-1]]


def test_no_questions_and_no_objects(tmp_path) -> None:
    none = np.empty((0, 2), np.int64)
    empty = PointQuestions(np.empty((0, 2)), np.empty(0, np.int64), clauses_of([]), none, none, np.empty((0, 2)))
    for rows in ([], some_objects(random.Random(1), 20)):
        for find, _, _ in FINDERS.values():
            assert not len(find(snapshot_of(tmp_path, rows), empty).question)


VALUES = (0.0, -0.0, -0.5, -1.0, 1.0, 1e-45, 3e38, np.inf, 2.5)


def some_rows(rnd: random.Random, count: int, values: tuple[float, ...], times: int, step: int):
    question = np.array([rnd.randrange(5) * step for _ in range(count)], np.int64)
    value = np.array([rnd.choice(values) for _ in range(count)], np.float32)
    ts = np.array([rnd.randrange(-times, times) for _ in range(count)], np.int64)
    return question, value, ts, np.array(rnd.sample(range(10 * count), count), np.int64)


@pytest.mark.parametrize("values", [VALUES, (0.0,), (-0.0, 0.0)])
@pytest.mark.parametrize("times", [3, 1 << 40, 1 << 61])
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_rows_are_ordered(values, times, step) -> None:
    rnd = random.Random(7)
    for count in (1, 2, 30, 400):
        columns = some_rows(rnd, count, values, times, step)
        order = order_rows(*columns).tolist()
        rows = list(zip(*(column.tolist() for column in columns)))
        assert order == sorted(range(count), key=lambda at: (*rows[at][:2], -rows[at][2], -rows[at][3]))


LAST = 2**63 - 2


def test_an_answer_has_no_more_rows_than_its_bound(tmp_path) -> None:
    rnd = random.Random(1)
    rows = some_objects(rnd, 3000)
    snapshot = snapshot_of(tmp_path, rows, [900, 1000, 2500])
    questions = [some_question(rnd, "range", rows) for _ in range(200)]
    timed = asked(questions)
    most = bound_rows(snapshot, timed)
    counts = [0] * len(questions)
    for place in ANSWERERS["range"](snapshot, timed).question.tolist():
        counts[place] += 1
    assert sum(counts) > 1000
    assert all(count <= bound for count, bound in zip(counts, most.tolist()))
    unlimited = [place for place, question in enumerate(questions) if question["limit"] is None]
    assert sum(most[place] < len(rows) for place in unlimited) > len(unlimited) / 3, "bounds below all objects"
    assert bound_rows(ObjectSnapshot([]), timed).sum() == sum(question["limit"] or 0 for question in questions)


@pytest.mark.parametrize("most", [1, 7, 100, 5000])
@pytest.mark.parametrize("times", ["spread", "few", "one"])
def test_slices_are_all_objects_newest_first(tmp_path, most: int, times: str) -> None:
    step = {"spread": 10**13, "few": 1, "one": 0}[times]
    rows = [(key, f"o{key}", step * (key * 7919 % 11), 0.0, 0.0, "w") for key in range(1, 400)]
    snapshot = snapshot_of(tmp_path, rows, [150])
    parts = list(slice_window(snapshot, 0, 20 * step, LAST, most))
    stored = []
    for part in parts:
        inside = [
            (ts, key)
            for key, _, ts, *_ in rows
            if ts <= part.to_ts and key <= part.to_key and (ts, key) > (part.after_ts, part.after_key)
        ]
        assert len(inside) <= most
        stored += sorted(inside, reverse=True)
    assert stored == sorted(((ts, key) for key, _, ts, *_ in rows), reverse=True)


EARTH_RADIUS_M = 6_371_008.8


def some_place(rnd: random.Random) -> tuple[float, float]:
    if rnd.random() < 0.3:
        return rnd.choice((*LONS, -180.0, 180.0)), rnd.choice((*LATS, -90.0, 90.0))
    return rnd.uniform(-180, 180), rnd.uniform(-90, 90)


@pytest.mark.parametrize("level", range(LEVELS + 1))
def test_no_place_of_a_cell_scores_more_than_its_bound(level: int) -> None:
    rnd = random.Random(level)
    for _ in range(300):
        lon, lat = some_place(rnd)
        other_lon, other_lat = some_place(rnd)
        if rnd.random() < 0.5:  # near
            other_lon = min(max(lon + rnd.gauss(0, 0.01), -180.0), 180.0)
            other_lat = min(max(lat + rnd.gauss(0, 0.01), -90.0), 90.0)
        (code,) = place_codes(np.array([other_lon]), np.array([other_lat]))
        cell = int(code) >> 2 * (LEVELS - level)
        least = least_haversine_of_cell(lon, lat, least_cosine(lat * DEGREE), cell, level)
        exact = haversine(lon, lat, other_lon, other_lat)
        assert least <= exact
        for scale in (1.0, 5_000.0, math.pi * EARTH_RADIUS_M):
            metres = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(exact)))
            assert greatest_place_score(least, 0.7, scale) >= 0.7 * max(0.0, 1.0 - metres / scale) - 1e-9


@pytest.mark.parametrize("count", [1, 63, 64, 300, 5000])
def test_first_rows_of_codes(count: int) -> None:
    rnd = np.random.default_rng(count)
    codes = np.sort(rnd.integers(0, 1 << 32, count).astype(np.uint32))
    codes[: count // 3] = np.sort(rnd.integers(0, 100_000, count // 3))
    codes.sort()
    rows = first_rows_of_cells(codes)
    wanted = [0, 1, (1 << 32) - 1, 1 << 32, 1 << 16, 3 << 30, *codes[:200].tolist()]
    wanted += rnd.integers(0, 1 << 32, 200).tolist()
    for code in wanted:
        assert first_row_of(codes, rows, code) == np.searchsorted(codes, code)
