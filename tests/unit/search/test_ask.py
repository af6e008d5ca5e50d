"""`pststream ask` and `pststream.open(home).ask` answer questions about the objects of a home, without a JVM."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pststream
from pststream.base.errors import UsageError
from pststream.search import answer_blocks, open_snapshot
from pststream.search.object_segments import ObjectSegment
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.storage.array_cache import Paths
from tests.commands import Home as CommandHome
from tests.commands import new_home, run_here
from tests.unit.reports.commands.homes import add_file, copy_of, thing

TEXTS = ("free coffee", "Cheap TEA and coffee", "kaffe på Söder")
KNN = {"kind": "knn", "point": {"lon": 0.0, "lat": 0.0}, "k": 2}


@pytest.fixture(scope="module")
def home(empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with two files of objects: three, then one of an earlier time."""
    home = copy_of(empty_home, tmp_path_factory.mktemp("asked") / "home")
    texts = enumerate(TEXTS, start=1)
    add_file(home, "objects", [thing(row, f"=o{row}", row, lon=row / 100, text=text) for row, text in texts])
    add_file(home, "objects", [thing(1, "late", 0.5, lon=0.005, text="late tea")])
    return home


def ingest(home: CommandHome, folder: Path, *objects: str) -> None:
    """Ingest a file of objects at (0, 0), each given as its id, or as its row."""
    rows = [one if "," in one else f"{one},2026-03-01T00:00:00Z,0,0,plain" for one in objects]
    file = folder / f"{objects[0].partition(',')[0]}.csv"
    file.write_text("\n".join(["object_id,ts,lon,lat,text", *rows]))
    home.ingest("objects", [file])


def questions_file(folder: Path) -> Path:
    lines = [
        {"question_id": "near", **KNN},
        {"question_id": "bad", **KNN, "k": -1},
        {"question_id": "box", "keywords": "coffee", "bbox": [-1, -1, 1, 1]},
        {"question_id": "before", **KNN, "version": 1, "as_of": "2026-03-01T00:02:00Z"},
        {"question_id": "never", **KNN, "version": 77},
    ]
    path = folder / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


EXPECTED = [
    ("near", "knn", 1, "late"),
    ("near", "knn", 2, "=o1"),
    ("box", "range", 1, "=o2"),
    ("box", "range", 2, "=o1"),
    ("before", "knn", 1, "=o1"),
    ("before", "knn", 2, "=o2"),
]


def test_a_file_of_questions(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "answers.parquet"
    result = run_here("ask", questions_file(tmp_path), "--out", out, "--json", "--home", home.path)
    assert result.code == 0, result.err
    document = result.json
    assert {name: document[name] for name in ("questions", "rejected", "rows")} == {
        "questions": 5, "rejected": 2, "rows": 6,
    }  # fmt: skip
    assert set(document["seconds"]) == {"read", "segments", "answer", "write"}
    faults = [(one["row"], one["field"], one["reason"]) for one in document["rejects"]]
    assert faults == [(2, "k", "out_of_range"), (5, "version", "unknown_version")]
    rows = pq.read_table(out).to_pylist()
    assert [(row["question_id"], row["kind"], row["rank"], row["object_id"]) for row in rows] == EXPECTED
    assert [row["distance_m"] is None for row in rows] == [row[1] == "range" for row in EXPECTED]
    assert rows[1]["distance_m"] == pytest.approx(1111.95, abs=0.01)


def test_formats_of_answers(home: Home, tmp_path: Path) -> None:
    file = questions_file(tmp_path)
    for name in ("a.csv", "a.jsonl"):
        assert run_here("ask", file, "--out", tmp_path / name, "--home", home.path, "--strict").code == 3
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["object_id"].removeprefix("'") for row in rows] == [row[3] for row in EXPECTED]
    assert rows[1]["object_id"] == "'=o1" and rows[2]["distance_m"] == ""
    assert rows[0]["ts"] == "2026-03-01T00:00:30.000000Z"
    documents = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    assert [(one["question_id"], one["kind"], one["rank"], one["object_id"]) for one in documents] == EXPECTED
    assert documents[2]["distance_m"] is None and documents[0]["distance_m"] == pytest.approx(555.97, abs=0.01)


def test_one_question_by_options(home: Home) -> None:
    options = ("--kind", "knn", "--point", "-0.001,0", "-k", "3", "--keywords", "tea OR söder", "--window", "objects=3")
    result = run_here("ask", *options, "--home", home.path)
    assert result.code == 0, result.err
    assert [line.split()[:2] for line in result.out.splitlines()] == [["rank", "object_id"], ["1", "=o2"], ["2", "=o3"]]
    document = run_here("ask", *options, "--home", home.path, "--json").json
    assert [(row["rank"], row["object_id"]) for row in document["answers"]] == [(1, "=o2"), (2, "=o3")]
    for region in (("--bbox", "-1,-1,0.005,1"), ("--circle", "0,0,600"), ("--geometry", SQUARE)):
        assert "late" in run_here("ask", "--kind", "range", *region, "--home", home.path).out
    nothing = run_here("ask", "--kind", "range", "--bbox", "5,5,6,6", "--home", home.path)
    assert (nothing.code, nothing.out.strip()) == (0, "nothing answers the question")


def test_scores_and_terms_by_options(home: Home) -> None:
    words = ("--kind", "frequent_terms", "--circle", "0,0,2000000", "-k", "2")
    lines = run_here("ask", *words, "--home", home.path).out.splitlines()
    assert [line.split() for line in lines] == [["rank", "term", "count"], ["1", "coffee", "2"], ["2", "tea", "2"]]
    scored = ("--kind", "topk", "--point", "0,0", "-k", "1", "--keywords", "tea", "--alpha", "0.5")
    for scale in ((), ("--distance-scale-m", "1000")):
        document = run_here("ask", *scored, *scale, "--home", home.path, "--json").json
        assert [(row["object_id"], row["term_statistics_version"]) for row in document["answers"]] == [("late", 0)]
    assert document["answers"][0]["score"] == pytest.approx(0.5 * (1 - 0.55597) + 0.5 / 2**0.5, abs=1e-4)


SQUARE = '{"type": "Polygon", "coordinates": [[[0, 0], [0.006, 0], [0.006, 1], [0, 1], [0, 0]]]}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kind", "knn", "--point", "0,0"), "-k: missing"),
        (("--kind", "knn", "--point", "0", "-k", "1"), "2 numbers"),
        (("--kind", "knn", "--point", "0,99", "-k", "1"), "--point: unreadable_point"),
        (("--kind", "range", "--bbox", "0,0,1,1", "--as-of", "soon"), "--as-of: unreadable_time"),
        (("--kind", "topk", "--point", "0,0", "-k", "1", "--keywords", "a", "--alpha", "x"), "--alpha x: a number"),
        (("--kind", "topmost",), "--kind: unknown_kind"),
        (("--kind", "range", "--bbox", "0,0,1,1", "--version", "99"), "--version: unknown_version"),
        (("--kind", "range", "--bbox", "0,0,1,1", "--out", "answers.txt"), "unknown format"),
        ((), "needs files and --out"),
        (("questions.jsonl",), "needs files and --out"),
        (("questions.jsonl", "--out", "a.csv", "-k", "3"), "-k does not apply"),
        (("nowhere.jsonl", "--out", "a.csv"), "no such file"),
    ],
)  # fmt: skip
def test_bad_usage(home: Home, options: tuple[str, ...], message: str) -> None:
    result = run_here("ask", *options, "--home", home.path)
    assert result.code == 2 and message in result.err, result.err


def test_from_python(home: Home) -> None:
    opened = pststream.open(home.path)
    answers = opened.ask([KNN, {"question_id": "all", "bbox": [-180, -90, 180, 90], "limit": 1}])
    assert answers["question_id"].to_pylist() == ["1", "1", "all"]
    assert answers["object_id"].to_pylist() == ["late", "=o1", "=o3"]
    assert opened.ask([]).num_rows == 0
    with pytest.raises(UsageError, match="question 2: k: missing"):
        opened.ask([KNN, {"kind": "knn", "point": {"lon": 0, "lat": 0}}])


@pytest.mark.parametrize("kind", ["range", "knn", "topk", "frequent_terms"])
def test_withdrawn_objects_do_not_count(withdrawn: CommandHome, kind: str) -> None:
    fields: dict = {"k": 3, "keywords": "w", "point": {"lon": 0, "lat": 0}} if kind in ("knn", "topk") else {}
    fields |= {"topk": {"alpha": 0.5}, "range": {"keywords": "w"}, "frequent_terms": {"k": 3}}.get(kind, {})
    fields |= {} if "point" in fields else {"bbox": [-1, -1, 1, 1]}
    versions = {name: {**fields, "kind": kind, "question_id": name} for name in ("now", "before", "windowed")}
    versions["before"]["version"] = 1
    versions["windowed"]["window"] = "90m"
    answers = pststream.open(withdrawn.path).ask(versions.values()).to_pylist()
    by_id = {name: [row["object_id"] for row in answers if row["question_id"] == name] for name in versions}
    if kind == "frequent_terms":
        counts = [(row["question_id"], row["term"], row["count"]) for row in answers if row["term"] == "w"]
        assert counts == [("now", "w", 3), ("before", "w", 3), ("windowed", "w", 2)]
        return
    assert {name: set(ids) for name, ids in by_id.items()} == {
        "now": {"a", "b", "d"}, "before": {"a", "b", "c"}, "windowed": {"b", "d"},
    }  # fmt: skip


def test_versions_with_the_same_withdrawals_share_a_snapshot(
    withdrawn: CommandHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, leave_out = [], ObjectSnapshot.without
    monkeypatch.setattr(
        ObjectSnapshot, "without", lambda snapshot, keys: made.append(keys) or leave_out(snapshot, keys)
    )
    everything = {"bbox": [-1, -1, 1, 1]}
    answers = pststream.open(withdrawn.path).ask(
        [everything, {**everything, "version": 2}, {**everything, "version": 1}]
    )
    assert answers["object_id"].to_pylist() == ["d", "b", "a", "d", "b", "a", "c", "b", "a"]
    assert len(made) == 1


@pytest.fixture(scope="module")
def withdrawn(tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """A home with objects at 0, 1 and 9 hours, the last of them withdrawn, and then one at 2 hours."""
    folder = tmp_path_factory.mktemp("withdrawn")
    home = new_home(folder / "home", engine="local")
    ingest(home, folder, *(f"{name},2026-03-01T0{hour}:00:00Z,0,0,w {name}" for name, hour in zip("abc", (0, 1, 9))))
    home.run("withdraw", "--object-id", "c")
    ingest(home, folder, "d,2026-03-01T02:00:00Z,0,0,w d")
    return home


def test_answers_of_many_batches_are_in_the_order_of_the_questions(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_blocks, "BLOCK_QUESTIONS", 3)
    box = {"bbox": [-1, -1, 1, 1]}
    mixed = [(KNN, {"kind": "frequent_terms", "k": 2, **box}, {**box, "limit": 2})[number % 3] for number in range(50)]
    answers = pststream.open(home.path).ask(mixed)
    assert answers["question_id"].to_pylist() == [str(number) for number in range(1, 51) for _ in range(2)]
    assert answers["rank"].to_pylist() == [1, 2] * 50


def test_segments_of_objects_erased_meanwhile_do_not_stay_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An `ask` lists the files, an erasure rewrites them and clears the cache, and the `ask` builds its segments."""
    monkeypatch.setenv("PSTSTREAM_CACHE_DIR", str(tmp_path / "cache"))
    home = new_home(tmp_path / "home", engine="local")
    ingest(home, tmp_path, "a", "secret17")
    build = open_snapshot.ObjectCache.segment

    def erase_and_build(cache: open_snapshot.ObjectCache, paths: tuple[str, ...]) -> ObjectSegment:
        monkeypatch.undo()
        monkeypatch.setenv("PSTSTREAM_CACHE_DIR", str(tmp_path / "cache"))
        home.run("erase", "--object-id", "secret17")
        return build(cache, paths)

    monkeypatch.setattr(open_snapshot.ObjectCache, "segment", erase_and_build)
    question = ("ask", "--kind", "range", "--bbox", "-1,-1,1,1")
    assert {row["object_id"] for row in home.run(*question)["answers"]} == {"a", "secret17"}, "it asked before"
    assert {row["object_id"] for row in home.run(*question)["answers"]} == {"a"}
    entries = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert entries and not [path for path in entries if b"secret17" in path.read_bytes()]


def test_such_segments_do_not_stay_either_if_another_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`erase --vacuum-now` deletes the files of the next segment."""
    monkeypatch.setenv("PSTSTREAM_CACHE_DIR", str(tmp_path / "cache"))
    home = new_home(tmp_path / "home", engine="local")
    ingest(home, tmp_path, "a", "b", "secret17")
    ingest(home, tmp_path, "c")
    build, built = open_snapshot.ObjectCache.segment, []

    def erase_and_build_one(cache: open_snapshot.ObjectCache, paths: tuple[str, ...]) -> ObjectSegment:
        if built:
            raise FileNotFoundError(paths[0])
        home.run("erase", "--object-id", "secret17")
        built.append(build(cache, paths))
        return built[0]

    segments = open_snapshot.list_segments(Home(home.path), str(tmp_path / "cache"), 10**9)
    assert len(segments.groups) == 2
    monkeypatch.setattr(open_snapshot.ObjectCache, "segment", erase_and_build_one)
    with pytest.raises(FileNotFoundError):
        segments.open()
    assert b"secret17" in built[0].ids.tobytes()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and b"secret17" in path.read_bytes()]


def test_maintain_drops_the_segments_of_compacted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSTSTREAM_CACHE_DIR", str(tmp_path / "cache"))
    home = new_home(tmp_path / "home", engine="local")
    for name in ("o0", "o1"):
        ingest(home, tmp_path, name)
    question = {"bbox": [-1, -1, 1, 1]}
    before = pststream.open(home.path).ask([question, {**question, "version": 1}])
    (segment,) = (tmp_path / "cache").glob("segments-objects-*/*")
    home.run("maintain")
    assert not segment.exists()
    after = pststream.open(home.path).ask([question, {**question, "version": 1}])
    assert after == before and before["object_id"].to_pylist() == ["o1", "o0", "o0"]


def test_scoring_without_statistics_uses_the_cache_of_the_settings(home: Home, tmp_path: Path) -> None:
    snapshot = open_snapshot.open_snapshot(home, Settings(cache_dir=str(tmp_path)))
    segments = set(tmp_path.glob("segments-*/*"))
    snapshot.text_arrays(0)
    assert len(segments) == len(snapshot.segments) and len({*tmp_path.glob("segments-*/*")} - segments) == 1
    assert all(segment.exists() for segment in segments)


def test_segments_that_another_thread_builds_of_newer_files_stay(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, listed = copy_of(Path(home.path), tmp_path / "home"), open_snapshot.list_data_files
    settings = Settings(cache_dir=str(tmp_path / "cache"))
    built: list[list[Paths]] = []

    def list_before_another_thread(*arguments: Any) -> Any:
        files = listed(*arguments)
        monkeypatch.setattr(open_snapshot, "list_data_files", listed)
        add_file(mine, "objects", [thing(1, "newer", 9)])
        open_snapshot.open_snapshot(mine, settings)
        built.append(cache.mapped_others("", ()))
        return files

    cache = open_snapshot.object_cache(settings.cache_dir, settings.cache_bytes)
    monkeypatch.setattr(open_snapshot, "list_data_files", list_before_another_thread)
    open_snapshot.list_segments(mine, settings.cache_dir, settings.cache_bytes)
    assert built == [cache.mapped_others("", ())] and built[0]
