"""`pststream generate`: files by seed, requests drawn from a given file, lifetimes and drift."""

import json
from pathlib import Path

from tests.commands import run_here


def read_rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


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


def test_drift_of_what_has_no_regions_is_bad_usage(tmp_path: Path) -> None:
    done = run_here("generate", "requests", "--count", "9", "--drift-every", "3", "--out", tmp_path / "r.jsonl")
    assert done.code == 2
    assert not list(tmp_path.iterdir())
