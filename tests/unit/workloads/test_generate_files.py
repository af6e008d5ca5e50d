"""Generated files: valid, repeatable, as in the paper, in constant memory; and `pststream generate`."""

import csv
import gzip
import io
import json
import tracemalloc
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard

from pststream.base.errors import InputFileError, UsageError
from pststream.input.parse_requests import parse_requests
from pststream.input.row_chunks import RecordChunk
from pststream.queries.shapes.registry import read_region
from pststream.queries.text.expression import parse_keywords
from pststream.queries.text.words import tokenize
from pststream.workloads import generate_files
from pststream.workloads.draw_subscriptions import SubscriptionStyle, draw_subscriptions, draws_q2, region_of
from pststream.workloads.generate_files import write_objects, write_requests
from pststream.workloads.object_sample import ObjectSample, generate_sample, sample_of_file, sample_texts
from pststream.workloads.places import KM_PER_DEGREE, find_city, make_places, nearest_cities
from pststream.workloads.random_texts import MAX_WORDS, made_up_word, make_vocabulary
from tests.commands import run_here


@pytest.fixture(scope="module")
def sample() -> ObjectSample:
    return generate_sample(3, 20_000)


def read_rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "csv.gz", "jsonl.zst"])
def test_objects_are_equal_in_all_formats(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "below" / f"o.{ending}"
    written = write_objects(path, 300, 1)
    assert (written.rows, written.bytes) == (300, path.stat().st_size)
    write_objects(tmp_path / "plain.jsonl", 300, 1)
    expected = read_rows(tmp_path / "plain.jsonl")
    assert [path.name] == [p.name for p in path.parent.iterdir()]
    content = path.read_bytes()
    if ending.endswith("gz"):
        content = gzip.decompress(content)
    if ending.endswith("zst"):
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    if ending.startswith("parquet"):
        rows = pq.read_table(path).to_pylist()
    elif ending.startswith("csv"):
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        rows = [{**row, "lon": float(row["lon"]), "lat": float(row["lat"])} for row in rows]
    else:
        rows = [json.loads(line) for line in content.splitlines()]
    assert rows == expected


@pytest.mark.parametrize("ending", ["csv", "jsonl.gz", "parquet"])
def test_same_seed_same_bytes(tmp_path: Path, ending: str) -> None:
    contents = []
    for number, seed in enumerate((1, 1, 2)):
        path = tmp_path / f"{number}.{ending}"
        write_objects(path, 200, seed)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_objects_are_valid_and_in_order(tmp_path: Path) -> None:
    write_objects(tmp_path / "o.jsonl", 5_000, 1, start="2026-02-03T04:05:06+02:00", seconds_per_object=2)
    rows = read_rows(tmp_path / "o.jsonl")
    times = [datetime.fromisoformat(row["ts"]).timestamp() for row in rows]
    assert times == sorted(times)
    start = datetime.fromisoformat("2026-02-03T02:05:06Z").timestamp()
    assert start <= times[0] < start + 2 and start + 9_998 <= times[-1] <= start + 10_000
    assert len({row["object_id"] for row in rows}) == 5_000
    assert all(-180 <= row["lon"] <= 180 and -90 <= row["lat"] <= 90 for row in rows)
    words = [len(row["text"].split()) for row in rows]
    assert min(words) >= 1 and 8.7 < np.mean(words) < 9.3


def test_words_follow_the_power_law_and_the_area(tmp_path: Path) -> None:
    here = make_places(np.array([10.5]), np.array([50.5]), np.array([1.0]))
    there = make_places(np.array([-70.5]), np.array([-20.5]), np.array([1.0]))
    counts = []
    for name, places in (("here", here), ("there", there)):
        write_objects(tmp_path / f"{name}.jsonl", 3_000, 1, places=places)
        texts = (row["text"] for row in read_rows(tmp_path / f"{name}.jsonl"))
        counts.append(Counter(word for text in texts for word in text.split()))
    frequent = make_vocabulary().words[:5].to_pylist()
    assert all(count[frequent[0]] > 1.5 * count[frequent[-1]] * 0.7 for count in counts)
    shared = {word for count in counts for word, n in count.most_common(40) if n > 0}
    only_here = [w for w in shared if counts[0][w] > 8 * (counts[1][w] + 1)]
    only_there = [w for w in shared if counts[1][w] > 8 * (counts[0][w] + 1)]
    assert len(only_here) >= 5 and len(only_there) >= 5


def test_points_lie_around_the_places(tmp_path: Path) -> None:
    places = make_places(np.array([0.0, 100.0]), np.array([0.0, 0.0]), np.array([3e6, 1e6]))
    write_objects(tmp_path / "o.jsonl", 4_000, 1, places=places)
    lon = np.array([row["lon"] for row in read_rows(tmp_path / "o.jsonl")])
    assert 0.72 < (lon < 50).mean() < 0.78
    assert np.median(np.abs(lon[lon < 50])) * KM_PER_DEGREE < 20


@pytest.mark.parametrize("kind", ["q1", "q2", "q3"])
def test_requests_are_valid_and_as_in_the_paper(tmp_path: Path, sample: ObjectSample, kind: str) -> None:
    path = tmp_path / "r.jsonl"
    assert write_requests(path, 3_000, 1, kind=kind, objects=sample).rows == 3_000
    rows = read_rows(path)
    assert len({row["subscription_id"] for row in rows}) == 3_000
    rank = {word: i for i, word in enumerate(sample.words.to_pylist())}
    top = len(rank) // 100
    sides, numbers, joined, rare = [], Counter(), Counter(), 0
    for row in rows:
        assert row.keys() == {"op", "subscription_id", "keywords", "bbox", "created_at"} and row["op"] == "insert"
        assert datetime.fromisoformat(row["created_at"]).tzinfo is not None
        (_, south, _, north), *_ = read_region({"bbox": row["bbox"]}).boxes
        sides.append((north - south) * KM_PER_DEGREE)
        clauses = parse_keywords(row["keywords"]).required
        words = {word for clause in clauses for word in clause}
        numbers[len(words)] += 1
        joined["and" if len(clauses) > 1 else "or" if len(words) > 1 else "one"] += 1
        rare += max(rank[word] for word in words) >= top
    widest = 50 if kind == "q1" else 100
    assert 0.99 < min(sides) < 3 and widest - 3 < max(sides) < widest + 0.01
    mean = {"q1": 25.5, "q2": 50.5, "q3": 38}[kind]
    assert mean - (6 if kind == "q3" else 1.5) < np.mean(sides) < mean + (6 if kind == "q3" else 1.5)
    assert set(numbers) == {1, 2, 3} and min(numbers.values()) > 900
    assert 0.9 < joined["and"] / joined["or"] < 1.1
    assert rare == 3_000 if kind == "q2" else rare < 2_900


def test_keywords_are_as_frequent_as_terms(tmp_path: Path, sample: ObjectSample) -> None:
    write_requests(tmp_path / "r.jsonl", 6_000, 1, objects=sample)
    counts = Counter(
        word
        for row in read_rows(tmp_path / "r.jsonl")
        for clause in parse_keywords(row["keywords"]).required
        for word in clause
    )
    term, count = np.unique(sample.source.occurrences, return_counts=True)
    share = dict(zip(term.tolist(), (count / count.sum()).tolist()))
    for rank in (0, 3, 10, 30):
        assert counts[sample.words[rank].as_py()] / counts.total() == pytest.approx(share[rank], rel=0.35)


def test_deletions_follow_their_insertions(tmp_path: Path, sample: ObjectSample) -> None:
    path = tmp_path / "r.jsonl"
    written = write_requests(path, 3_000, 1, objects=sample, deletions=True, mean_lifetime=500)
    rows = read_rows(path)
    inserted: dict[str, tuple[int, datetime]] = {}
    lifetimes, live, most = [], 0, 0
    for row in rows:
        if row["op"] == "insert":
            inserted[row["subscription_id"]] = (len(inserted), datetime.fromisoformat(row["created_at"]))
            live += 1
        else:
            assert row.keys() == {"op", "subscription_id", "at"}
            number, created = inserted[row["subscription_id"]]
            assert datetime.fromisoformat(row["at"]) > created
            lifetimes.append(len(inserted) - 1 - number)
            live -= 1
        most = max(most, live)
    times = [row.get("created_at") or row["at"] for row in rows]
    assert times == sorted(times), "times never go back"
    assert written.rows == 3_000 + len(lifetimes) and len(lifetimes) > 2_400
    assert len({row["subscription_id"] for row in rows if row["op"] == "delete"}) == len(lifetimes)
    assert 490 < np.mean(lifetimes) < 510 and 90 < np.std(lifetimes) < 110
    assert most < 560


@pytest.mark.parametrize("lives", [{}, {"deletions": True, "mean_lifetime": 2_000}])
def test_memory_holds_the_live_subscriptions_only(
    tmp_path: Path, sample: ObjectSample, monkeypatch: pytest.MonkeyPatch, lives: dict
) -> None:
    monkeypatch.setattr(generate_files, "REQUEST_CHUNK", 10_000)
    monkeypatch.setattr(generate_files, "REQUEST_CHUNK", 10_000)
    peaks = []
    for count in (30_000, 90_000):
        tracemalloc.start()
        write_requests(tmp_path / "r.parquet", count, 1, objects=sample, **lives)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("kind", ["q1", "q2"])
def test_sides_are_spread_evenly(sample: ObjectSample, kind: str) -> None:
    queries = draw_subscriptions(np.random.default_rng(1), 20_000, sample.source, SubscriptionStyle(kind), 1)
    sides = (queries.boxes[:, 3] - queries.boxes[:, 1]) * KM_PER_DEGREE
    widest = 50 if kind == "q1" else 100
    expected = 1 + (widest - 1) * np.linspace(0.1, 0.9, 9)
    assert np.abs(np.quantile(sides, np.linspace(0.1, 0.9, 9)) - expected).max() < 0.015 * widest


def test_drift_switches_kinds_in_the_file(tmp_path: Path, sample: ObjectSample) -> None:
    write_requests(tmp_path / "r.jsonl", 8_000, 5, kind="q3", objects=sample, drift_every=4_000)
    rows = read_rows(tmp_path / "r.jsonl")
    boxes = np.array([row["bbox"] for row in rows])
    large = (boxes[:, 3] - boxes[:, 1]) * KM_PER_DEGREE > 50.01
    region = region_of(boxes[:, 0::2].mean(axis=1), boxes[:, 1::2].mean(axis=1), sample.source.bounds)
    inside = boxes[:, 2] > boxes[:, 0]
    switched = draws_q2(5, 0) != draws_q2(5, 1)
    for interval, part in enumerate((slice(0, 4_000), slice(4_000, 8_000))):
        taste = draws_q2(5, interval)[region[part]]
        here = inside[part] & switched[region[part]]
        if (here & ~taste).any():
            assert large[part][here & ~taste].mean() < 0.1
        if (here & taste).any():
            assert large[part][here & taste].mean() > 0.2
    again = tmp_path / "again.jsonl"
    write_requests(again, 8_000, 5, kind="q3", objects=sample, drift_every=4_000)
    assert again.read_bytes() == (tmp_path / "r.jsonl").read_bytes()


def test_sample_of_given_data(tmp_path: Path) -> None:
    lon, lat = np.array([10.0, 20.0, 500.0, np.nan, 30.0]), np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    sample = sample_texts(lon, lat, ["a b a", "b or", "x", "x", None])
    assert sample.words[0].as_py() == "b" and set(sample.words.to_pylist()) == {"a", "b", "or"}
    assert sample.source.lon.tolist() == [10.0, 20.0, 30.0]
    write_requests(tmp_path / "r.jsonl", 200, 1, objects=sample)
    for row in read_rows(tmp_path / "r.jsonl"):
        words = {word for clause in parse_keywords(row["keywords"]).required for word in clause}
        assert words <= {"a", "b", "or"} and words


def test_sample_of_a_file(tmp_path: Path) -> None:
    write_objects(tmp_path / "o.csv", 2_000, 1)
    sample = sample_of_file(str(tmp_path / "o.csv"), 1, limit=500)
    assert len(sample.source.lon) == 500
    assert sample.words.to_pylist() == list(dict.fromkeys(sample.words.to_pylist()))
    write_objects(tmp_path / "o.parquet", 300, 1)
    assert len(sample_of_file(str(tmp_path / "o.parquet"), 1).source.lon) == 300
    (tmp_path / "x.csv").write_text((tmp_path / "o.csv").read_text().replace(",lon,", ",x,"), "utf-8")
    for name in ("x.csv", "none.csv", "o.txt"):
        with pytest.raises(InputFileError):
            sample_of_file(str(tmp_path / name), 1)


def test_bad_arguments_write_nothing(tmp_path: Path) -> None:
    bad: list[tuple[str, dict]] = [
        ("o.txt", {}), ("o.parquet.gz", {}), ("o.csv", {"start": "noon"}), ("o.csv", {"seconds_per_object": -1}),
        ("o.csv", {"seconds_per_object": float("nan")}),
    ]  # fmt: skip
    for name, arguments in bad:
        with pytest.raises(UsageError):
            write_objects(tmp_path / name, 10, 1, **arguments)
    with pytest.raises(UsageError):
        write_requests(tmp_path / "r.csv", 10, 1)
    with pytest.raises(UsageError):
        write_requests(tmp_path / "r.jsonl", 10, 1, kind="q4")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_written(tmp_path: Path, sample: ObjectSample) -> None:
    for ending in ("csv", "jsonl", "parquet"):
        assert write_objects(tmp_path / f"o.{ending}", 0, 1).rows == 0
    assert write_requests(tmp_path / "r.jsonl", 0, 1, objects=sample).rows == 0


def test_words_are_words() -> None:
    words = make_vocabulary(20_000).words.to_pylist()
    assert len(set(words)) == 20_000
    assert all(tokenize(word) == [word] for word in words)
    assert "and" not in words and "or" not in words
    assert len({made_up_word(n) for n in range(MAX_WORDS - 1_000, MAX_WORDS)}) == 1_000
    for size in (0, MAX_WORDS + 1):
        with pytest.raises(ValueError):
            make_vocabulary(size)


def test_cities_are_found() -> None:
    lon, lat = find_city("Lisbon", "PT")
    assert abs(lon + 9.13) < 0.1 and abs(lat - 38.72) < 0.1
    with pytest.raises(KeyError):
        find_city("Atlantis", "GR")
    (name, away), (_, far) = nearest_cities(np.array([18.955, -30.0]), np.array([69.649, -50.0]))
    assert name == "Tromsø" and away < 5 and far > 500


@pytest.mark.parametrize("kind", ["knn", "topk", "frequent_terms"])
def test_requests_of_kinds_with_memory_are_valid(kind: str, tmp_path: Path, sample: ObjectSample) -> None:
    for ending in ("jsonl", "parquet"):
        write_requests(tmp_path / f"r.{ending}", 300, 5, kind=kind, objects=sample, deletions=True, mean_lifetime=50)
    rows = read_rows(tmp_path / "r.jsonl")
    read = [{name: value for name, value in row.items() if value is not None} for row in _parquet_rows(tmp_path)]
    assert read == rows
    accepted, rejected = parse_requests(RecordChunk("r", list(range(len(rows))), rows), datetime.now(UTC))
    assert (accepted.num_rows, rejected.num_rows) == (len(rows), 0) and len(rows) > 400
    inserted = [row for row in rows if row["op"] == "insert"]
    assert [row.get("kind") for row in rows] == [kind if row["op"] == "insert" else None for row in rows]
    # Files of several kinds go into one home: no two of them have a common id.
    assert {row["subscription_id"] for row in rows} == {f"{kind}-{number}" for number in range(300)}
    assert {row["k"] for row in inserted} == {"knn": set(range(1, 11)), "topk": {20}}.get(kind, {10})
    if kind == "topk":
        assert 0.4 < np.mean([row["alpha"] for row in inserted]) < 0.6
        assert max(len(row["keywords"].split()) for row in inserted) == 5
    if kind == "knn":
        assert max(row["keywords"].count(" OR ") for row in inserted) == 4


def _parquet_rows(folder: Path) -> list[dict]:
    rows: list[dict] = pq.read_table(folder / "r.parquet").to_pylist()
    return rows


def test_requests_on_given_objects(tmp_path: Path) -> None:
    objects = tmp_path / "objects.csv"
    objects.write_text("object_id,ts,lon,lat,text\na,2026-01-01T00:00:00Z,18.0,59.0,red fox\n", "utf-8")
    made = tmp_path / "requests.jsonl"
    options = ["--kind", "q3", "--lifetime", 20, "--drift-every", 50, "--objects", objects, "--seed", 4]
    done = run_here("generate", "requests", "--count", "200", "--out", made, "--json", *map(str, options))
    rows = read_rows(made)
    assert done.code == 0
    assert done.json["rows"] == len(rows) > 350
    inserted = [row for row in rows if row["op"] == "insert"]
    assert len(inserted) == 200
    assert {word for row in inserted for word in row["keywords"].split()} <= {"red", "fox", "AND", "OR"}
    assert all(17 < row["bbox"][0] < 18 < row["bbox"][2] < 19 for row in inserted)


def test_five_objects_a_request(tmp_path: Path) -> None:
    """Both files keep the paper's pace: as their times go, five objects come for each insertion or deletion."""
    run_here("generate", "objects", "--count", "10000", "--out", tmp_path / "o.jsonl")
    run_here("generate", "requests", "--count", "1000", "--lifetime", "20", "--out", tmp_path / "r.jsonl")
    objects, requests = (read_rows(tmp_path / name) for name in ("o.jsonl", "r.jsonl"))
    until = requests[-1].get("created_at") or requests[-1]["at"]
    assert 4.8 < sum(row["ts"] <= until for row in objects) / len(requests) < 5.2
