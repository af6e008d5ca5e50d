"""Data of benchmarks and calibration: objects of files, standing queries, fitted costs, the baseline job of a batch."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as pds
import pytest

from benchmarks.registry import BENCHMARKS, run_benchmark
from benchmarks.scenarios.plans import planners, planners_large
from benchmarks.scenarios.streams import expressions
from benchmarks.support.baseline_jobs import find_no_pairs, record_pairs, replay_pairs
from benchmarks.support.measured_homes import STREAMS, BenchHome, CityObjects, FileObjects, draw_topk, read_objects
from pststream.base import names
from pststream.base.errors import InputFileError, UsageError
from pststream.base.progress import Steps, no_progress
from pststream.pipeline.batch import match_task
from pststream.pipeline.batch.match_task import WorkerReport
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.calibrate import KNN_STYLES, _knn_points, fit_kinds, measure_knn
from pststream.pipeline.calibrate.synthetic_homes import QueryWords, draw_knn
from pststream.queries.text.words import tokenize
from pststream.settings import Settings
from pststream.tables.delta_tables import read_table
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.places import BRITAIN_BOUNDS, city_places
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, term_ids

pytestmark = pytest.mark.deep

ROWS = [
    ("18.0", "59.0", "coffee shop coffee"),
    ("500", "59.0", "nowhere"),
    ("", "59.0", "nowhere"),
    ("19.5", "58.0", "..."),
    ("-70.25", "41.0", "shop of shoes shop"),
    ("19.0", "60.0", "shoes"),
]


@pytest.fixture
def places(tmp_path) -> str:
    path = tmp_path / "places.csv"
    path.write_text(
        "lat,id,lon,text\n" + "".join(f"{lat},{n},{lon},{text}\n" for n, (lon, lat, text) in enumerate(ROWS))
    )
    return str(path)


def _terms(objects: FileObjects, row: int) -> set[int]:
    return set(objects.objects.terms[slice(*objects.objects.term_offsets[row : row + 2])].tolist())


def test_terms_are_ranks_of_words_by_frequency(places: str) -> None:
    read = read_objects(places)
    valid = (0, 4, 5)
    assert read.objects.lon.tolist() == [float(ROWS[row][0]) for row in valid]
    assert read.objects.lat.tolist() == [float(ROWS[row][1]) for row in valid]
    texts = [set(tokenize(ROWS[row][2])) for row in valid]
    frequency = Counter(word for text in texts for word in text)
    assert read.objects.vocabulary.size == len(frequency) == 4
    assert "4 words of 3 objects" in read.description
    by_rank = np.bincount(read.objects.terms).tolist()
    assert by_rank == sorted(frequency.values(), reverse=True)
    assert [len(_terms(read, row)) for row in range(3)] == [len(text) for text in texts]
    assert len(_terms(read, 1) & _terms(read, 0)) == 1, "shop"


def test_rows_are_drawn_whole(places: str) -> None:
    read = read_objects(places)
    drawn = read.draw(50, 3)
    again = read.draw(50, 3)
    assert drawn.lon.tolist() == again.lon.tolist() != read.draw(50, 4).lon.tolist()
    for number, lon in enumerate(drawn.lon.tolist()):
        row = read.objects.lon.tolist().index(lon)
        begin, end = drawn.term_offsets[number : number + 2]
        assert set(drawn.terms[begin:end].tolist()) == _terms(read, row)
        assert drawn.lat[number] == read.objects.lat[row]
    assert len(set(drawn.lon.tolist())) == 3


def test_a_home_has_the_objects_of_its_source(tmp_path, places: str) -> None:
    bench = BenchHome(str(tmp_path / "home"), 1, no_progress, read_objects(places))
    assert set(bench.source.lon.tolist()) == {18.0, -70.25, 19.0}
    britain = CityObjects(city_places("GB", BRITAIN_BOUNDS)).draw(200, 1)
    assert britain.lon.min() > -9 and britain.lon.max() < 3 and britain.lat.min() > 49


def test_a_file_without_the_columns_is_refused(tmp_path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputFileError, match="cannot be read"):
        read_objects(str(path))
    path.write_text("lon,lat,text\n500,0,a\n")
    with pytest.raises(InputFileError, match="no row with a place and a word"):
        read_objects(str(path))


def test_workloads_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch, places: str) -> None:
    given = []

    def run(*arguments: object) -> dict[str, object]:
        given.append(arguments[-1])
        return {"figures": {}, "floor": {}, "targets": {}}

    assert "q1_10m" in planners_large.list_workloads("full")
    assert set(planners.WORKLOADS) > {"q1_paper", "q2_paper", "q3_paper"}
    monkeypatch.setitem(BENCHMARKS, "planners-large", replace(BENCHMARKS["planners-large"], run=run))
    document = run_benchmark(
        "planners-large", "full", 2, Settings(), no_progress, workloads=["q1_5m"], objects=places
    )  # fmt: skip
    (choice,) = given
    assert choice.workloads == ("q1_5m",) and isinstance(choice.objects, FileObjects)
    assert document["options"]["workloads"] == "q1_5m" and document["options"]["objects"] == "places.csv"
    assert len(document["options"]["sha256"]) == 64
    with pytest.raises(UsageError, match="planners-large has no workload q9"):
        run_benchmark("planners-large", "full", 2, Settings(), no_progress, workloads=["q9", "q1_5m"])
    with pytest.raises(UsageError, match="kernel has objects of its own"):
        run_benchmark("kernel", "small", 1, Settings(), no_progress, objects=places)


COUNT = 300


@pytest.fixture(scope="module")
def source() -> SyntheticObjects:
    return STREAMS["place"].draw(200, 3)


def words_at(source: SyntheticObjects) -> dict[tuple[float, float], set[int]]:
    """Return the words of the object at each place."""
    ids, offsets = term_ids(source.terms).tolist(), source.term_offsets.tolist()
    places = zip(source.lon.tolist(), source.lat.tolist())
    return {place: set(ids[low:high]) for place, low, high in zip(places, offsets, offsets[1:], strict=False)}


def clauses_and_places(columns: dict) -> list[tuple[list[list[int]], tuple[float, float]]]:
    places = zip(columns["lon"].to_pylist(), columns["lat"].to_pylist())
    return list(zip(columns["clauses"].to_pylist(), places, strict=True))


def test_topk_has_a_clause_for_each_word(source: SyntheticObjects) -> None:
    columns = draw_topk(source, COUNT, 20, {"window_objects": 100}, QueryWords(5), 1)
    words = words_at(source)
    for clauses, place in clauses_and_places(columns):
        drawn = [word for clause in clauses for word in clause]
        assert 1 <= len(clauses) == len(drawn) == len(set(drawn)) <= 5 and set(drawn) <= words[place]
    assert len({len(clauses) for clauses, _ in clauses_and_places(columns)}) > 3
    assert set(columns["window_objects"].to_pylist()) == {100} and set(columns["k"].to_pylist()) == {20}
    assert 0.3 < np.mean(columns["alpha"].to_numpy()) < 0.7


@pytest.mark.parametrize("all_needed", [False, True])
def test_knn_has_words_of_an_object(source: SyntheticObjects, all_needed: bool) -> None:
    columns = draw_knn(source, COUNT, (2, 4), QueryWords(3, all_needed=all_needed), 1)
    words = words_at(source)
    for clauses, place in clauses_and_places(columns):
        drawn = [word for clause in clauses for word in clause]
        assert len(clauses) == (len(drawn) if all_needed else 1)
        assert 1 <= len(set(drawn)) == len(drawn) <= 3 and set(drawn) <= words[place]
    assert set(columns["k"].to_pylist()) == {2, 3, 4}


def test_words_by_zipfs_law_are_distinct(source: SyntheticObjects) -> None:
    columns = draw_topk(source, COUNT, 20, {"window_us": 100}, QueryWords(5), 1, zipf=True)
    for clauses, _ in clauses_and_places(columns):
        assert 1 <= len(clauses) == len({word for (word,) in clauses}) <= 5


COSTS = (1e-13, 4e-7, 6e-9)
OF_MATCH = {"range": 3e-9, "knn": 9e-8}


def draw_groups(kind: str, noise: float = 0.0) -> list[np.ndarray]:
    """Draw the points of 12 plans, of which the seconds follow from the costs."""
    rng = np.random.default_rng([29, len(kind)])
    groups = []
    for workers in (2, 4, 8) * 4:
        sent, stored = rng.integers(1_000, 50_000, workers), rng.integers(1_000, 50_000, workers)
        read = sent * rng.uniform(5, 100)
        matched = read * rng.uniform(0.1, 0.5)
        terms = np.column_stack([sent * stored, sent, read, matched])
        seconds = terms @ (*COSTS, OF_MATCH[kind]) * rng.normal(1.0, noise, workers)
        groups.append(np.column_stack([sent, stored, read, matched, seconds]))
    return groups


def test_costs_are_found_and_those_of_matches_by_kind() -> None:
    fitted = fit_kinds(draw_groups("range"), draw_groups("knn"))
    names = ("cost_check", "cost_object", "cost_posting", "cost_match", "cost_match_knn")
    assert [fitted[name] for name in names] == pytest.approx([*COSTS, *OF_MATCH.values()], rel=1e-4)
    assert fitted["points"] == 2 * 4 * (2 + 4 + 8)
    for kind in OF_MATCH:
        assert fitted[f"{kind}_correlation"] == pytest.approx(1.0)
        assert fitted[f"{kind}_total_over_measured"] == pytest.approx(1.0) and fitted[f"{kind}_total_error"] < 1e-6
    assert fitted["knn_by_range_total_over_measured"] < 0.6
    assert fitted["knn_by_range_total_error"] == pytest.approx(1 - fitted["knn_by_range_total_over_measured"])


def test_the_fits_without_a_group_show_the_noise() -> None:
    fitted = fit_kinds(draw_groups("range", 0.1), draw_groups("knn", 0.1))
    assert fitted["least_match_knn"] < fitted["cost_match_knn"] < fitted["greatest_match_knn"]
    assert fitted["greatest_match_knn"] == pytest.approx(OF_MATCH["knn"], rel=0.2)
    assert fitted["greatest_match"] < fitted["least_match_knn"]


def test_each_candidate_is_counted_at_one_worker_of_every_plan() -> None:
    steps = Steps(no_progress, 3)
    settings = Settings(max_ahead_seconds=0, engine="local")
    for style in KNN_STYLES:
        plans = (("kd_tree", 1), ("grid", 3), ("keyword_hash", 2))
        groups = measure_knn(style, (200, 300), plans, 1, 1, settings, steps)
        one, *others = groups
        assert len(one) == 1 and all(1 < len(group) <= workers for group, (_, workers) in zip(others, plans[1:]))
        for group in groups:
            sent, stored, read, matched, seconds = group.T
            assert matched.sum() == one[0, 3] > 0 and (read >= matched).all()
            assert sent.sum() >= one[0, 0] > 0 and stored.sum() >= one[0, 1]
            assert (seconds > 0).all()


def test_the_least_seconds_are_those_of_the_same_worker_in_any_order() -> None:
    """An engine returns the reports of workers in no order."""
    seconds = {0: (5.0, 4.0), 1: (1.0, 2.0)}
    first, second = (
        {worker: WorkerReport(worker, 7, [], 3 + worker, 0, of_worker[search]) for worker, of_worker in seconds.items()}
        for search in (0, 1)
    )
    points = _knn_points([[first[0], first[1]], [second[1], second[0]]])
    assert points[:, 0].tolist() == [3.0, 4.0] and points[:, 4].tolist() == [4.0, 1.0]


BASELINE = Settings(engine="local", workers=3)


def matches_of_batch(bench: BenchHome, batch_id: int) -> list[Any]:
    """The rows of a batch but for the keys and times of its objects, in the order of the files."""
    columns = ["object_id", "subscription_keys", "worker", "plan_version", "retracted"]
    return sorted(
        read_table(bench.home.table(names.MATCHES), columns, pds.field("batch_id") == batch_id).to_pylist(), key=repr
    )


def test_a_replayed_batch_writes_equal_rows_and_does_not_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = BenchHome(str(tmp_path / "home"), 1, no_progress)
    bench.add_subscriptions(20_000, SubscriptionStyle(frequent_share=0.45))
    drawn = synthetic_objects(3_000, 1)
    bench.add_drawn_objects([drawn])
    with record_pairs() as recorded:
        match(bench.home, BASELINE)
    found = matches_of_batch(bench, 1)
    assert len(recorded) > 1 and sum(len(row["subscription_keys"]) for row in found) > 500

    bench.add_drawn_objects([drawn])
    with monkeypatch.context() as patch, replay_pairs(recorded):
        patch.delattr(match_task, "match_objects")
        match(bench.home, BASELINE)
    assert matches_of_batch(bench, 2) == found

    bench.add_drawn_objects([drawn])
    with find_no_pairs():
        assert match(bench.home, BASELINE)["objects"] == 3_000
    assert matches_of_batch(bench, 3) == []

    bench.add_drawn_objects([synthetic_objects(2_999, 2)])
    with replay_pairs(recorded), pytest.raises(KeyError):
        match(bench.home, BASELINE)
    match(bench.home, BASELINE)
    bench.add_drawn_objects([drawn])
    match(bench.home, BASELINE)
    assert matches_of_batch(bench, 5) == found


def test_phrases_and_exclusions_add_no_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(expressions.SIZES, "small", (600, 300))
    monkeypatch.setitem(expressions.RUNS, "small", 1)
    result = run_benchmark("expressions", "small", 1, Settings(), no_progress)
    figures, twin = result["figures"], result["floor"]
    for name in ("phrases", "han"):
        assert figures[f"{name}_matches_per_object"] > 0, name
        assert figures[f"{name}_index_bytes"] > twin[f"{name}_index_bytes"] > 0, name
        assert figures[f"{name}_segment_bytes"] > 0, name
    assert figures["phrases_matches_per_object"] <= twin["phrases_matches_per_object"]
