"""Edge cases of subscriptions of all kinds in one world, under several planners, however the two logs are cut.

The twin judges the answers of `knn` and `topk` after each batch. At the end another one, which reads the files alone,
judges the matches, the answers, the reports, and the sum of all changes.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests import worlds
from tests.commands import Home
from tests.oracles import twin
from tests.oracles.standing_log import expected_rows
from tests.standing_worlds import STANDING_ERRORS, StandingTwin, count_standing, standing_home
from tests.worlds import Row, Rows, WrittenWorld, moment

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LATENESS_STEPS = 30
"""Steps of ten minutes after which an id of an object may come again."""

CENTRE, EAST, WEST, NORTH, SOUTH = (0.0, 0.0), (180.0, 10.0), (-180.0, 10.0), (12.0, 90.0), (-77.0, -90.0)


def edge_objects() -> Rows:
    """Objects that all have one word: many at one point and time, at the antimeridian and the poles, late ones, some
    that a later one of the same batch moves out of every window, and ids that come again.
    """
    places = [CENTRE] * 10 + [EAST, WEST, (179.9, 10.0), (-179.9, 10.0), NORTH, (100.0, 90.0), SOUTH, (0.1, 0.1)]
    rows = [
        {"object_id": f"o{n}", "ts": moment(n // 4), "text": "all coffee" if n % 3 else "All tea"} | _place(place)
        for n, place in enumerate(places)
    ]
    rows += [
        {"object_id": f"passes{n}", "ts": moment(20 + n), "text": "all brief coffee tea"} | _place(CENTRE)
        for n in range(3)
    ]
    rows += [
        {"object_id": f"late{n}", "ts": moment(3 + n), "text": "ALL coffee! coffee"} | _place(place)
        for n, place in enumerate((CENTRE, EAST, SOUTH))
    ]
    rows += [
        {"object_id": f"o{n}", "ts": moment(60 + n // 2), "text": "all again"} | _place(place)
        for n, place in enumerate((CENTRE, WEST, NORTH, CENTRE, CENTRE, EAST))
    ]
    rows.append({"object_id": "late again", "ts": moment(40), "text": "all tea"} | _place(CENTRE))
    return rows


def _place(place: tuple[float, float]) -> Row:
    return {"lon": place[0], "lat": place[1]}


def edge_requests() -> Rows:
    """Subscriptions of all kinds that live from the first object on, and some lives with ends and other kinds."""
    rows: Rows = []
    points = [CENTRE, (179.95, 10.0), NORTH, SOUTH]
    windows: list[Any] = [None, "10m", "2h", {"objects": 1}, {"objects": 3}, {"objects": 1000}]
    words = ["all", "coffee AND tea", "unheard", "*"]
    for n, (window, word) in enumerate(itertools.product(windows, words)):
        one = {"kind": "knn", "keywords": word, "point": _place(points[n % 4]), "k": (1, 3, 100)[n % 3]}
        one |= {"max_distance_m": (0, 20_000)[n // 3 % 2]} if n % 3 == 0 else {}
        rows.append(_insertion(f"knn{n}", 0, {**one, "window": window}))
    for n, (window, alpha) in enumerate(itertools.product(windows[1:], (0, 0.5, 1))):
        one = {"kind": "topk", "keywords": ("all", "coffee tea", "unheard all", "unheard")[n % 4], "alpha": alpha}
        one |= {"point": _place(points[n % 3]), "k": (1, 2, 100)[n % 3], "window": window}
        one |= {} if n % 2 else {"distance_scale_m": (1.0, 20_000.0)[n // 2 % 2]}
        rows.append(_insertion(f"topk{n}", 0, one))
    regions = [
        {"bbox": [-180.0, -90.0, 180.0, 90.0]}, {"bbox": [179.0, 9.0, -179.0, 11.0]}, {"bbox": [0.0, 0.0, 0.0, 0.0]},
        {"circle": _place(NORTH) | {"radius_m": 1.0}}, {"circle": _place(EAST) | {"radius_m": 20_000.0}},
    ]  # fmt: skip
    steps = [("20m", "10m"), ("10m", "50m"), ("5h", "1h")]
    for n, (region, (window, step)) in enumerate(itertools.product(regions, steps)):
        report = {"kind": "frequent_terms", **region, "k": (1, 2, 100)[n % 3], "window": window, "step": step}
        rows.append(_insertion(f"terms{n}", 0, report))
    rows += [_insertion(f"range{n}", 0, {"keywords": "*", **region}) for n, region in enumerate(regions)]
    return rows + _lives(rows)


def _insertion(subscription_id: str, step: int, fields: Row) -> Row:
    return {"op": "insert", "subscription_id": subscription_id, "created_at": moment(step), **fields}


def _lives(rows: Rows) -> Rows:
    """Return deletions and replacements, some at times before those that were seen, and ids that come again, as another
    kind.
    """
    named = {row["subscription_id"]: row for row in rows}
    ended = [("knn0", 2), ("knn2", 61), ("topk0", 21), ("topk4", 3), ("terms0", 2), ("terms9", 61), ("range0", 3)]
    lives: Rows = [{"op": "delete", "subscription_id": one, "at": moment(step)} for one, step in ended]
    again = [("knn0", "topk0", 3), ("topk0", "terms0", 21), ("terms0", "range0", 2), ("range0", "knn0", 60)]
    for one, other, step in again:
        lives.append({**named[other], "subscription_id": one, "created_at": moment(step)})
    replaced = [("knn4", "range1", 3), ("topk6", "knn6", 21), ("terms3", "knn9", 2), ("range2", "terms1", 61)]
    for one, other, step in [*replaced, ("knn8", "knn8", 60), ("range3", "range4", 2), ("new", "knn1", 3)]:
        row = {**named[other], "subscription_id": one, "created_at": moment(step)}
        lives.append(worlds.as_replacement(row))
    for one in ("knn5", "knn16", "topk5", "terms5", "range1"):
        lives.append({**named[one], "subscription_id": f"short {one}", "expires_at": moment(22)})
        lives.append({**named[one], "subscription_id": f"past {one}", "expires_at": moment(2)})
        lives.append({**named[one], "subscription_id": f"coming {one}", "created_at": moment(61)})
    return lives


def write_edges(folder: Path, cuts: int) -> WrittenWorld:
    """Write the world, each log cut into so many files."""
    folder.mkdir()
    written: dict[str, list[Path]] = {}
    for kind, rows in (("objects", edge_objects()), ("requests", edge_requests())):
        parts = [part for part in worlds.cut(rows, cuts) if part]
        written[kind] = [folder / f"{kind}-{number:02}.jsonl" for number in range(len(parts))]
        for path, part in zip(written[kind], parts):
            path.write_text("".join(json.dumps(row) + "\n" for row in part), "utf-8")
    return WrittenWorld(written["objects"], written["requests"], LATENESS_STEPS * 600)


def assert_as_the_twins(home: Home, world: WrittenWorld) -> None:
    StandingTwin(home).assert_answers_after_each_batch()
    outcome = twin.outcome_of(world.log, world.lateness_seconds)
    counts = count_standing(home, expected_rows(outcome))
    assert not any(counts[name] for name in STANDING_ERRORS), counts
    assert counts["standing_answers"] > 30 and counts["standing_reports"] > 30
    assert sorted(home.exported()) == sorted(outcome.matches)
    assert home.run("check", "--all")["success"]


@pytest.mark.parametrize(
    ("planner", "workers", "cuts", "order"),
    [
        ("hybrid", 5, 20, "by turns"),
        pytest.param("grid", 1, 1, "objects first", marks=pytest.mark.deep),
        pytest.param("frequency", 16, 7, "requests first", marks=pytest.mark.deep),
    ],
)
def test_edge_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planner: str, workers: int, cuts: int, order: str
) -> None:
    monkeypatch.setenv("PSTSTREAM_ANSWER_BUCKETS", "2")
    world = write_edges(tmp_path / "files", cuts)
    home = standing_home(tmp_path / "home", world, planner=planner, workers=workers)
    objects, requests = ([("objects", path) for path in world.objects], [("requests", path) for path in world.requests])
    turns = {"objects first": objects + requests, "requests first": requests + objects}
    turns["by turns"] = [file for pair in itertools.zip_longest(requests, objects) for file in pair if file]
    for number, (kind, path) in enumerate(turns[order]):
        home.ingest(kind, [path])
        if order != "by turns" or number % 2:
            home.match()
    home.match()
    assert_as_the_twins(home, world)
