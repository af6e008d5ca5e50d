"""Edge cases of questions: ends of windows, ties, poles, regions of no size, words of no and of all objects."""

import pytest

from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.search.answerers import ANSWERERS
from tests.unit.search.worlds import asked, check_answers, object_table, snapshot_of
from tests.worlds import START

T = to_micros(START)
WORLD = [-180, -90, 180, 90]
KINDS = [{"kind": "range", "bbox": WORLD}, {"kind": "knn", "point": {"lon": 1, "lat": 1}, "k": 3}]


def thing(number: int, ts: int = 0, lon: float = 0.0, lat: float = 0.0, text: str = "all") -> tuple:
    return (number, f"o{number}", T + ts, lon, lat, text)


def ids(snapshot, record: dict) -> list[str]:
    record = {"question_id": "q", **record}
    return ANSWERERS[record["kind"]](snapshot, asked([record])).columns["object_id"].to_pylist()


def at(micros: int) -> str:
    return str(iso(from_micros(T + micros)))


@pytest.mark.parametrize("question", KINDS)
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
            assert ids(snapshot, {"kind": "range", "bbox": WORLD, "limit": k}) == expected


def test_the_most_recent_objects(tmp_path) -> None:
    rows = [thing(1, 5), thing(2, 9), thing(3, 5), thing(4, 9), thing(5, 7)]
    snapshot = snapshot_of(tmp_path, rows, [2])
    for count, expected in ((1, ["o4"]), (3, ["o4", "o2", "o5"]), (4, ["o4", "o2", "o5", "o3"]), (9, 5)):
        found = ids(snapshot, {"kind": "knn", "point": {"lon": 0, "lat": 0}, "k": 10, "window": {"objects": count}})
        assert found == expected or len(found) == expected
    past = {"kind": "knn", "point": {"lon": 0, "lat": 0}, "k": 10, "window": {"objects": 2}, "as_of": at(7)}
    assert ids(snapshot, past) == ["o5", "o3"]


def test_places_at_poles_and_the_antimeridian(tmp_path) -> None:
    places = [
        (-180, 0),
        (180, 0),
        (179.9999, 0),
        (0, 90),
        (90, 90),
        (-180, 90),
        (0, -90),
        (179.99, 89.99),
        (-179.99, 89.99),
    ]
    rows = [thing(number, number, lon, lat) for number, (lon, lat) in enumerate(places, start=1)]
    snapshot = snapshot_of(tmp_path, rows, [4])
    for lon, lat in [*places, (0, 0), (-179.9999, 1e-9), (0, 89.995), (45, -89)]:
        point = {"lon": lon, "lat": lat}
        check_answers(
            snapshot, rows, "knn", [{"question_id": "q", "kind": "knn", "point": point, "k": k} for k in (1, 3, 99)]
        )
        circles = [{"circle": {**point, "radius_m": radius}} for radius in (0.0, 1.0, 2000.0, 1e7, 2.1e7)]
        boxes = [{"bbox": [lon, lat, lon, lat]}, {"bbox": [179, -1, -179, 90]}, {"bbox": [180, -90, -180, 90]}]
        check_answers(snapshot, rows, "range", [{"question_id": "q", **region} for region in [*circles, *boxes]])


def test_words_that_no_object_has_and_that_all_have(tmp_path) -> None:
    rows = [thing(number, text=f"all w{number % 2} w{number}") for number in range(1, 200)]
    snapshot = snapshot_of(tmp_path, rows, [60, 120])
    expressions = (
        "all",
        "none",
        "all none",
        "all OR none",
        "w0 w1",
        "w0 OR w1",
        "w7",
        "(w7 OR w8 OR none) AND all",
        "w1 w150",
    )
    for keywords in expressions:
        for question in KINDS:
            check_answers(snapshot, rows, question["kind"], [{"question_id": "q", "keywords": keywords, **question}])


def test_a_home_without_objects(tmp_path) -> None:
    assert ids(snapshot_of(tmp_path, []), KINDS[0]) == []
    assert object_table([]).num_rows == 0
    recent = {**KINDS[1], "window": {"objects": 5}}
    assert ids(snapshot_of(tmp_path, [], [0, 0]), recent) == []


def test_equal_counts_are_ordered_by_the_bytes_of_the_word(tmp_path) -> None:
    rows = [thing(1, text="b é a z aa"), thing(2, text="é b common"), thing(3, text="common Ω 10 9")]
    for cuts in ([], [1], [1, 2]):
        folder = tmp_path / str(cuts)
        folder.mkdir()
        snapshot = snapshot_of(folder, rows, cuts)
        question = {"question_id": "q", "kind": "frequent_terms", "bbox": WORLD}
        check_answers(snapshot, rows, "frequent_terms", [{**question, "k": k} for k in (*range(1, 10), 99)])
        answer = ANSWERERS["frequent_terms"](snapshot, asked([{**question, "k": 5}])).columns
        assert answer["term"].to_pylist() == ["b", "common", "é", "10", "9"]
        assert answer["count"].to_pylist() == [2, 2, 2, 1, 1]


def test_counts_of_regions_without_size_and_without_words(tmp_path) -> None:
    rows = [thing(1, lon=1.0, text="here"), thing(2, lon=1.0, text="..."), thing(3, lon=2.0, text="there")]
    snapshot = snapshot_of(tmp_path, rows, [1])
    regions = ({"bbox": [1, 0, 1, 0]}, {"circle": {"lon": 2, "lat": 0, "radius_m": 0}}, {"bbox": [5, 5, 5, 5]})
    records = [{"question_id": "q", "kind": "frequent_terms", "k": 3, **region} for region in regions]
    assert check_answers(snapshot, rows, "frequent_terms", records) == 2


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
    question = {"question_id": "q", "kind": "frequent_terms", "bbox": WORLD}
    snapshot = snapshot_of(tmp_path, rows, [1, 2])
    check_answers(snapshot, rows, "frequent_terms", [{**question, "k": k} for k in (1, 2, 3, 4, 5, 30, 62, 63, 65)])
