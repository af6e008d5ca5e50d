"""Bad input leads to the exit codes of the contract and exact messages, and does not affect good rows.

A file that cannot be read in its format ends the command with 2 and changes nothing; a bad row goes to the rejects.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands import Home, Result, new_home, run_here

pytestmark = [pytest.mark.e2e]

HEADER = "object_id,ts,lon,lat,text\n"
GOOD = {"object_id": "good", "ts": "2026-03-01T12:00:00Z", "lon": 1.0, "lat": 2.0, "text": "tea"}
GOOD_REQUEST = {
    "op": "insert",
    "subscription_id": "good",
    "keywords": "tea",
    "bbox": [0, 0, 10, 10],
    "created_at": "2026-01-01T00:00:00Z",
}


def as_csv(**changes: Any) -> str:
    """Make a CSV row from the good one with changes."""
    row = GOOD | changes
    return ",".join(str(row[name]) for name in ("object_id", "ts", "lon", "lat", "text")) + "\n"


def as_json(row: dict[str, Any], **changes: Any) -> str:
    return json.dumps(row | changes) + "\n"


def refused(home: Home, *arguments: str | Path) -> Result:
    """Run a command that must exit with 2 and must not change the home's tables."""
    before = tables(home.path)
    result = run_here(*arguments, "--home", home.path)
    assert result.code == 2, result.err
    assert result.out == ""
    assert "Traceback" not in result.err
    assert tables(home.path) == before
    return result


def tables(path: Path) -> set[str]:
    """Return every file of the tables."""
    return {str(p.relative_to(path)) for p in path.glob("**/tables/**/*") if p.is_file()}


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Make one home for all refused commands."""
    return new_home(tmp_path_factory.mktemp("refusals") / "home")


def random_bytes() -> bytes:
    return bytes((i * 7919 + i // 256) % 256 for i in range(5000))


def cut_parquet(folder: Path) -> bytes:
    whole = folder / "whole.bin"
    pq.write_table(pa.table({name: [str(value)] * 500 for name, value in GOOD.items()}), whole)
    return whole.read_bytes()[:-40]


def test_files_that_are_not_what_they_are_offered_as(shared_home: Home, tmp_path: Path) -> None:
    bad = {
        "binary.csv": random_bytes(),
        "binary.jsonl": random_bytes(),
        "text.parquet": (HEADER + as_csv()).encode(),
        "cut.parquet": cut_parquet(tmp_path),
        "cut.csv.gz": gzip.compress((HEADER + as_csv() * 3000).encode())[:-30],
        "plain.csv.gz": (HEADER + as_csv()).encode(),
        "names.csv": ("id,when,x,y,words\n" + as_csv()).encode(),
        "names.jsonl": b'{"id": "a", "when": 1, "x": 1, "y": 2, "words": "tea"}\n' * 3,
        "unknown.xlsx": b"PK\x03\x04",
    }
    for name, content in bad.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert name in refused(shared_home, "ingest", "objects", path).err


def test_wrong_column_names_are_told_with_the_remedy(shared_home: Home, tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text("id,when,x,y,words\n" + as_csv())
    message = refused(shared_home, "ingest", "objects", path).err
    assert "object_id" in message
    assert "--column" in message
    path = tmp_path / "right.csv"
    path.write_text(HEADER + as_csv())
    message = refused(shared_home, "ingest", "objects", path, "--column", "text=words").err
    assert "words" in message


def test_a_bad_file_among_good_ones_changes_nothing(shared_home: Home, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + as_csv())
    (tmp_path / "b.csv").write_bytes(random_bytes())
    assert "b.csv" in refused(shared_home, "ingest", "objects", tmp_path / "a.csv", tmp_path / "b.csv").err


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest", "objects", "nowhere.csv"],
        ["ingest", "things", "nowhere.csv"],
        ["ingest", "objects", "x.csv", "--column", "colour=red"],
        ["ingest", "objects", "x.csv", "--format", "xml"],
        ["plan", "--planner", "magic"],
        ["plan", "--workers", "0"],
        ["match", "--max-objects", "0"],
        ["export", "matches", "--out", "matches.xlsx"],
        ["frobnicate"],
    ],
)
def test_bad_usage(shared_home: Home, arguments: list[str]) -> None:
    refused(shared_home, *arguments)


def test_bad_rows_among_good_ones(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "objects.csv"
    rows = [
        as_csv(),
        as_csv(object_id="lat", lat=91),
        as_csv(object_id="lon", lon=-180.01),
        as_csv(object_id="nan", lon="NaN"),
        as_csv(object_id="inf", lat="inf"),
        as_csv(object_id="year0", ts="0000-01-01T00:00:00Z"),
        as_csv(object_id="never", ts="yesterday"),
        as_csv(object_id=""),
        as_csv(object_id="nolat", lat=""),
        "only,three,fields\n",
        as_csv(),
        as_csv(object_id="long", text="a" * 10_000_000),
        as_csv(object_id="good2"),
    ]
    content = (HEADER + "".join(rows)).encode()
    path.write_bytes(content + b"utf8,2026-03-01T12:00:00Z,1,2,\xff\xfe tea\n" + as_csv(object_id="good3").encode())
    said = home.run("ingest", "objects", path, "--strict", code=3)
    assert (said["rows"], said["accepted"], said["rejected"]) == (15, 3, 12)
    rejects = {row["row"]: (row["field"], row["reason"]) for row in home.run("rejects")["rejects"]}
    fields = {2: "lat", 3: "lon", 4: "lon", 5: "lat", 6: "ts", 7: "ts", 8: "object_id", 9: "lat"}
    assert {row: rejects[row][0] for row in fields} == fields
    assert rejects[10][1] == "wrong_field_count"
    assert rejects[11] == ("object_id", "duplicate")
    assert rejects[12] == ("text", "text_too_long")
    assert rejects[14] == ("text", "invalid_utf8")
    assert set(rejects) == {*range(2, 13), 14}
    _only_good_match(home, tmp_path, {"good", "good2", "good3"})


def _only_good_match(home: Home, tmp_path: Path, expected: set[str]) -> None:
    requests = tmp_path / "requests.jsonl"
    requests.write_text(as_json(GOOD_REQUEST))
    home.ingest("requests", [requests])
    home.match()
    assert {(o, s) for o, _, s in home.exported()} == {(o, "good") for o in expected}


def test_rejects_are_told_with_file_row_field_reason_and_value(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "objects.jsonl"
    path.write_text(as_json(GOOD) + as_json(GOOD, object_id="far", lat=91.5) + "{not json\n" + "[1, 2]\n")
    assert home.ingest("objects", [path])["rejects_by_reason"] == {
        "not_an_object": 1,
        "not_json": 1,
        "out_of_range": 1,
    }
    (row,) = home.run("rejects", "--reason", "out_of_range")["rejects"]
    assert (row["file"], row["row"], row["field"], row["kind"]) == (str(path), 2, "lat", "objects")
    assert "91.5" in row["raw"]


BAD_REQUESTS: dict[str, dict[str, Any]] = {
    "no keywords": {"keywords": ""},
    "unclosed parenthesis": {"keywords": "(tea OR milk"},
    "operator without word": {"keywords": "tea AND"},
    "ten thousand words": {"keywords": " ".join(f"w{n}" for n in range(10_000))},
    "ten thousand alternatives": {"keywords": " OR ".join(f"w{n}" for n in range(10_000))},
    "blow-up": {"keywords": " OR ".join(f"(a{n} b{n} c{n})" for n in range(40))},
    "ten thousand parentheses": {"keywords": "(" * 10_000 + "tea" + ")" * 9_999},
    "south above north": {"bbox": [0, 2, 1, 1]},
    "latitude 91": {"bbox": [0, 0, 1, 91]},
    "three numbers": {"bbox": [0, 0, 1]},
    "text for a number": {"bbox": [0, 0, "east", 1]},
    "NaN": {"bbox": [0, 0, float("nan"), 1]},
    "negative radius": {"bbox": None, "circle": {"lon": 0, "lat": 0, "radius_m": -5}},
    "no region": {"bbox": None},
    "two regions": {"circle": {"lon": 0, "lat": 0, "radius_m": 5}},
    "open ring": {"bbox": None, "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]}},
    "bow tie": {
        "bbox": None,
        "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]},
    },
    "point": {"bbox": None, "geometry": {"type": "Point", "coordinates": [0, 0]}},
    "bad time": {"created_at": "soon"},
    "expired at birth": {"expires_at": "2026-01-01T00:00:00Z"},
    "unknown op": {"op": "upsert"},
    "no id": {"subscription_id": None},
}


def test_bad_requests_among_good_ones(home: Home, tmp_path: Path) -> None:
    bad = [as_json(GOOD_REQUEST | {"subscription_id": what} | changes) for what, changes in BAD_REQUESTS.items()]
    logged = [
        as_json({"op": "delete", "subscription_id": "good", "at": "2026-01-01T00:00:00Z"}),
        as_json(GOOD_REQUEST, created_at="2026-02-01T00:00:00Z"),
        as_json({"op": "delete", "subscription_id": "unheard", "at": "2026-01-01T00:00:00Z"}),
    ]
    path = tmp_path / "bad.jsonl"
    path.write_text(as_json(GOOD_REQUEST) + "".join(bad + logged) + as_json(GOOD_REQUEST, subscription_id="last"))
    said = home.ingest("requests", [path])
    assert (said["rows"], said["accepted"]) == (len(bad) + 5, 2)
    rejects = {row["row"]: row for row in home.run("rejects")["rejects"]}
    assert set(rejects) == set(range(2, len(bad) + 5))
    reasons = [rejects[len(bad) + n]["reason"] for n in (2, 3, 4)]
    assert reasons == ["before_insertion", "already_live", "unknown_subscription"]
    parenthesis = rejects[2 + list(BAD_REQUESTS).index("unclosed parenthesis")]
    assert parenthesis["field"] == "keywords"
    assert "character 1" in parenthesis["detail"]
    assert all(row["detail"] and len(row["raw"] or "") <= 1000 for row in rejects.values())
    (tmp_path / "objects.csv").write_text(HEADER + as_csv())
    home.ingest("objects", [tmp_path / "objects.csv"])
    home.match()
    assert {(o, s) for o, _, s in home.exported()} == {("good", "good"), ("good", "last")}


def test_a_deletion_that_comes_first_in_the_log_is_unknown(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    deletion = {"op": "delete", "subscription_id": "good", "at": "2026-06-01T00:00:00Z"}
    path.write_text(as_json(deletion) + as_json(GOOD_REQUEST))
    assert home.ingest("requests", [path])["rejects_by_reason"] == {"unknown_subscription": 1}


def test_files_without_rows(home: Home, tmp_path: Path) -> None:
    (tmp_path / "header.csv").write_text(HEADER)
    (tmp_path / "empty.jsonl").write_text("")
    said = home.ingest("objects", [tmp_path / "header.csv", tmp_path / "empty.jsonl"])
    assert (said["files"], said["rows"]) == (2, 0)
    assert home.match()["batches"] == [] or home.exported() == []


def _homes_that_are_refused(path: Path) -> dict[str, Any]:
    mark = json.loads((path / "home.json").read_text())
    return {
        "a newer version": lambda: (path / "home.json").write_text(json.dumps(mark | {"home_format": 2})),
        "another tokenizer": lambda: (path / "home.json").write_text(json.dumps(mark | {"tokenizer": {"name": "x"}})),
        "a mark that is cut short": lambda: (path / "home.json").write_text(json.dumps(mark)[:5]),
        "no mark": lambda: (path / "home.json").unlink(),
    }


@pytest.mark.parametrize("what", ["a newer version", "another tokenizer", "a mark that is cut short", "no mark"])
def test_homes_that_are_refused(home: Home, tmp_path: Path, what: str) -> None:
    (tmp_path / "objects.csv").write_text(HEADER + as_csv())
    _homes_that_are_refused(home.path)[what]()
    for arguments in (
        ["ingest", "objects", tmp_path / "objects.csv"],
        ["match"],
        ["plan"],
        ["status"],
        ["export", "matches", "--out", tmp_path / "matches.csv"],
    ):
        message = refused(home, *arguments).err
        assert str(home.path) in message
        assert len(message.strip().splitlines()) >= 2, "the remedy is missing"


def test_a_home_that_was_made_by_half_is_made_whole_by_init(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    (home.path / "home.json").unlink()
    assert "init" in refused(home, "status").err
    home.run("init")
    assert home.run("status") is not None


def test_a_table_that_is_gone_is_told(home: Home) -> None:
    (log,) = home.path.glob("**/matches/_delta_log")
    log.rename(log.parent / "elsewhere")
    assert "matches" in refused(home, "status").err


def test_a_home_that_is_nowhere(tmp_path: Path) -> None:
    result = run_here("status", "--home", tmp_path / "nowhere")
    assert result.code == 2
    assert "init" in result.err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("planner", "magic"), ("workers", 0), ("workers", "many"), ("lateness_seconds", -1), ("colour", 1)],
)
def test_settings_that_cannot_be_used(home: Home, key: str, value: Any) -> None:
    home.set(**{key: value})
    assert key in refused(home, "plan").err
