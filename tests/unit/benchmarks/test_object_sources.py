"""Objects of a file are read and drawn as a plain loop over its rows does."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.registry import BENCHMARKS, run_benchmark
from benchmarks.scenarios.plans import planners, planners_large
from pststream.base.errors import InputFileError, UsageError
from pststream.base.progress import no_progress
from pststream.pipeline.calibrate.measured_homes import BenchHome
from pststream.pipeline.calibrate.rows import CityObjects, FileObjects, read_objects
from pststream.queries.text.words import tokenize
from pststream.settings import Settings
from pststream.workloads.places import BRITAIN_BOUNDS, city_places

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
