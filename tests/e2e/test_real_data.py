"""Real data: accepted and rejected rows add up, and the matches, answers and reports are those of the twins.

2,000 subscriptions each by default; PSTSTREAM_FULL=1 runs 100,000 over the places and 20,000 over Houston.
"""

import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import worlds
from tests.commands import Home, new_home
from tests.oracles import twin_fast
from tests.oracles.standing_log import ExpectedRows, expected_rows
from tests.oracles.twin import Outcome
from tests.oracles.twin_expressions import words_of
from tests.oracles.twin_rows import LogFile
from tests.standing_worlds import STANDING_ERRORS, count_standing

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.spark, pytest.mark.real_data, pytest.mark.timeout(3000)]

FULL = os.environ.get("PSTSTREAM_FULL") == "1"
PLACES_TS = "2026-01-01T00:00:00Z"
PLACES_COLUMNS = {"object_id": "id", "lon": "longitude", "lat": "latitude"}
HOUSTON_COLUMNS = {"object_id": "@row", "ts": "time", "text": "offense+location+address"}


def column_options(columns: dict[str, str]) -> list[str]:
    """Convert renamed columns to command-line options."""
    return [part for name, source in columns.items() for part in ("--column", f"{name}={source}")]


def real_file(folder: Path, name: str) -> Path:
    """Return a file of the folder; skip the test if it is missing."""
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not there")
    return folder / name


def write_requests(path: Path, rows: Iterable[worlds.Row]) -> Path:
    """Write requests as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def places_requests(source: Path, path: Path, count: int) -> Path:
    """Make subscriptions over the places, valid before and at their single ts."""
    table = pq.read_table(source, columns=["longitude", "latitude", "text"])
    points = [(float(x), float(y)) for x, y in zip(table[0].to_pylist(), table[1].to_pylist())]
    return write_requests(path, worlds.subscriptions_over(points, table[2].to_pylist(), count, 3, PLACES_TS))


def houston_requests(source: Path, path: Path, count: int) -> Path:
    """Make subscriptions over Houston's streets: a third each from the start, from May, and ended in June."""
    rows = pq.read_table(source, columns=["lon", "lat", "offense", "address"]).to_pylist()
    rows = [row for row in rows if row["lon"] is not None]
    points = [(row["lon"], row["lat"]) for row in rows]
    texts = [f"{row['offense']} {row['address']}" for row in rows]
    made = list(worlds.subscriptions_over(points, texts, count, 4, "2010-01-01T00:00:00Z"))
    for n, row in enumerate(made):
        if n % 3 == 1:
            row["created_at"] = "2010-05-01T05:00:00Z"
    ends = [{"op": "delete", "subscription_id": r["subscription_id"], "at": "2010-06-01T00:00:00Z"} for r in made]
    return write_requests(path, [*made, *ends[2::3], *standing_requests(points, texts, 50 if FULL else 4)])


def standing_requests(points: list[tuple[float, float]], texts: list[str], count: int) -> Iterable[worlds.Row]:
    """Make subscriptions with memory at places of objects with words of objects, `count` for each of six windows."""
    rnd = random.Random(5)
    windows: list[Any] = [None, "30d", {"objects": 5_000}, "7d", {"objects": 20_000}, "1d"]
    for number, window in enumerate(windows * count):
        (lon, lat), words = rnd.choice(points), sorted(set(words_of(rnd.choice(texts))) - {"and", "or"})
        row: worlds.Row = {
            "op": "insert", "subscription_id": f"m{number}", "kind": "knn", "k": rnd.choice((1, 5, 20)),
            "created_at": rnd.choice(("2010-01-01T00:00:00Z", "2010-05-01T05:00:00Z")), "window": window,
            "point": {"lon": lon, "lat": lat}, "keywords": " OR ".join(rnd.sample(words, min(2, len(words)))),
        }  # fmt: skip
        if window == "1d":
            region = {"bbox": [lon - 0.02, lat - 0.02, lon + 0.02, lat + 0.02]}
            del row["point"], row["keywords"]
            row |= {"kind": "frequent_terms", "step": "12h", **region}
        elif window is not None and number % 4 < 2:
            distance = {"alpha": rnd.choice((0.2, 0.8)), "distance_scale_m": 20_000.0}
            row |= {"kind": "topk", "keywords": " ".join(words[:4]), **distance}
        yield row


def assert_adds_up(said: dict[str, int], kind: str, outcome: Outcome) -> None:
    """Assert that accepted and rejected rows add up and equal the counts of the twin."""
    assert said["accepted"] + said["rejected"] == said["rows"] == outcome.rows[kind]
    assert said["accepted"] == outcome.accepted[kind]
    assert sum(said["rejects_by_reason"].values()) == said["rejected"]


def assert_same_matches(home: Home, outcome: Outcome) -> None:
    """Assert that the exported matches are those of the twin, each once."""
    exported = home.exported()
    pairs = set(exported)
    assert len(exported) == len(pairs)
    missing, extra = outcome.matches - pairs, pairs - outcome.matches
    assert (sorted(missing)[:5], sorted(extra)[:5]) == ([], [])
    assert len(pairs) > 1000


def test_places(tmp_path: Path, real_data: Path) -> None:
    source = real_file(real_data, "us_simplegeo_places.parquet")
    requests = places_requests(source, tmp_path / "requests.jsonl", 100_000 if FULL else 2_000)
    constants = {"ts": PLACES_TS}
    outcome = twin_fast.outcome_of(
        [LogFile("objects", source, PLACES_COLUMNS, constants), LogFile("requests", requests)]
    )
    home = new_home(tmp_path / "home", planner="kd_tree", workers=8)
    options = [*column_options(PLACES_COLUMNS), "--constant", f"ts={PLACES_TS}"]
    said = home.ingest("objects", [source], *options)
    assert said["rows"] == 295_969
    assert_adds_up(said, "objects", outcome)
    assert_adds_up(home.ingest("requests", [requests]), "requests", outcome)
    home.run("plan")
    home.match()
    assert_same_matches(home, outcome)


@pytest.fixture(scope="module")
def houston(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> tuple[Path, Path, Outcome, ExpectedRows]:
    """Return the objects, requests over them, and what the twins say."""
    source = real_file(real_data, "houston_crime_2010.parquet")
    path = tmp_path_factory.mktemp("houston") / "requests.jsonl"
    requests = houston_requests(source, path, 20_000 if FULL else 2_000)
    log = [LogFile("objects", source, HOUSTON_COLUMNS), LogFile("requests", requests)]
    outcome = twin_fast.outcome_of(log)
    return source, requests, outcome, expected_rows(outcome)


@pytest.mark.parametrize(("planner", "workers", "cut"), [("grid", 5, 2_000_000), ("kd_tree", 16, 13_000)])
def test_houston(
    tmp_path: Path, houston: tuple[Path, Path, Outcome, ExpectedRows], planner: str, workers: int, cut: int
) -> None:
    source, requests, outcome, standing = houston
    home = new_home(tmp_path / "home", planner=planner, workers=workers)
    said = home.ingest("objects", [source], *column_options(HOUSTON_COLUMNS))
    assert (said["rows"], said["rejected"]) == (86_314, 5), "five rows have no coordinates"
    assert_adds_up(said, "objects", outcome)
    assert_adds_up(home.ingest("requests", [requests]), "requests", outcome)
    home.run("plan")
    home.match("--max-objects", str(cut))
    assert_same_matches(home, outcome)
    counts = count_standing(home, standing)
    assert not any(counts[name] for name in STANDING_ERRORS), counts
    assert counts["standing_answers"] > 50 and counts["standing_reports"] > 100
