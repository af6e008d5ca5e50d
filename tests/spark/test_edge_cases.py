"""One world with every named edge case: the matches equal a table written by hand, and the twin."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands import Home, new_home
from tests.oracles import twin
from tests.oracles.twin_rows import LogFile
from tests.worlds import moment, write_rows

HOUR = 3_600_000
NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z in milliseconds
LONG_TEXT = " ".join(f"w{n}" for n in range(1000))
FIFTY = " AND ".join(f"(x{n} OR w{n})" for n in range(50))
Times = dict[str, int]
ALWAYS: Times = {"from": -48 * HOUR}

POINTS: dict[str, tuple[float, float]] = {
    "origin": (0.0, 0.0),
    "on_edge": (1.0, 0.5),
    "on_corner": (1.0, 1.0),
    "beside_edge": (1.0000001, 0.5),
    "east_180": (180.0, 0.0),
    "west_180": (-180.0, 0.0),
    "west_170": (-170.0, 5.0),
    "east_170": (170.0, -5.0),
    "east_169": (169.999999, 0.0),
    "north_pole": (0.0, 90.0),
    "north_pole_too": (120.0, 90.0),
    "near_north_pole": (45.0, 89.9),
    "south_pole": (-50.0, -90.0),
    "city": (18.07, 59.33),
}
EVERY_POINT = set(POINTS)
NORTH = {"north_pole", "north_pole_too", "near_north_pole"}
POLES = {"north_pole", "north_pole_too", "south_pole"}
ANTIMERIDIAN = {"east_180", "west_180"}

UNIT = {"origin", "on_edge", "on_corner"}
ACROSS = ANTIMERIDIAN | {"west_170", "east_170"}


def _polygon(*rings: list[tuple[float, float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[list(place) for place in [*ring, ring[0]]] for ring in rings]}


def _polygons(*exteriors: list[tuple[float, float]]) -> dict[str, Any]:
    return {"type": "MultiPolygon", "coordinates": [_polygon(ring)["coordinates"] for ring in exteriors]}


REGIONS: dict[str, tuple[list[float] | dict[str, Any], set[str]]] = {
    "unit_box": ([0, 0, 1, 1], {"origin", "on_edge", "on_corner"}),
    "corner_to_corner": ([1, 1, 2, 2], {"on_corner"}),
    "zero_size": ([1, 1, 1, 1], {"on_corner"}),
    "zero_size_beside": ([1, 1.0000001, 1, 1.0000001], set()),
    "zero_height": ([0, 0, 1, 0], {"origin"}),
    "zero_width": ([1, 0, 1, 1], {"on_edge", "on_corner"}),
    "world": ([-180, -90, 180, 90], EVERY_POINT),
    "across": ([170, -5, -170, 5], ANTIMERIDIAN | {"west_170", "east_170"}),
    "across_thin": ([180, -90, -180, 90], ANTIMERIDIAN | POLES),
    "across_nearly_all": ([0.5, -90, 0.25, 90], EVERY_POINT),
    "east_edge": ([180, -90, 180, 90], ANTIMERIDIAN | POLES),
    "west_edge": ([-180, -89, -180, 89], ANTIMERIDIAN),
    "west_of_the_edge": ([-180, -1, -178, 1], ANTIMERIDIAN),
    "east_of_the_edge": ([170, -1, 180, 1], ANTIMERIDIAN),
    "north_cap": ([-180, 89.9, 180, 90], NORTH),
    "at_north_pole": ([0, 90, 0, 90], {"north_pole", "north_pole_too"}),
    "to_north_pole": ([100, 89, 110, 90], {"north_pole", "north_pole_too"}),
    "pole_to_pole": ([100, -90, 110, 90], POLES),
    "south_line": ([-180, -90, 180, -90], {"south_pole"}),
    "circle_zero": ({"lon": 18.07, "lat": 59.33, "radius_m": 0}, {"city"}),
    "circle_just_in": ({"lon": 0, "lat": 0, "radius_m": 124_318.618}, {"origin", "on_edge"}),
    "circle_just_out": ({"lon": 0, "lat": 0, "radius_m": 124_318.615}, {"origin"}),
    "circle_across_from_east": ({"lon": 179.9, "lat": 0, "radius_m": 15_000}, ANTIMERIDIAN),
    "circle_across_from_west": ({"lon": -179.9, "lat": 0, "radius_m": 15_000}, ANTIMERIDIAN),
    "circle_over_pole": ({"lon": 0, "lat": 89.95, "radius_m": 20_000}, NORTH),
    "circle_at_pole": ({"lon": 77, "lat": 90, "radius_m": 1}, {"north_pole", "north_pole_too"}),
    "circle_at_south_pole": ({"lon": 10, "lat": -90, "radius_m": 5_000}, {"south_pole"}),
    "circle_world": ({"lon": 12, "lat": 34, "radius_m": 20_100_000}, EVERY_POINT),
    "triangle": (_polygon([(0, 0), (1, 0), (1, 1)]), {"origin", "on_edge", "on_corner"}),
    "triangle_beside": (_polygon([(-1, -1), (0, -1), (-1e-9, 1)]), set()),
    "holed": (_polygon([(0, 0), (1, 0), (1, 1), (0, 1)], [(0.9, 0.4), (1, 0.5), (0.9, 0.6)]), UNIT),
    "polygons_across": (_polygons([(170, -5), (180, -5), (180, 5)], [(-180, -5), (-170, 5), (-180, 5)]), ACROSS),
    "polygon_from_the_edge": (_polygon([(-180, -5), (-175, -5), (-180, 5)]), ANTIMERIDIAN),
    "polygons_at_the_edge": (
        _polygons([(178, -2), (180, 0), (178, 2)], [(-180, -2), (-178, -2), (-178, 2), (-180, 2)]),
        ANTIMERIDIAN,
    ),
    "polygon_to_the_pole": (_polygon([(10, 88), (20, 88), (15, 90)]), {"north_pole", "north_pole_too"}),
    "antarctica": (_polygon([(-180, -90), (180, -90), (180, -80), (0, -70), (-180, -80)]), {"south_pole"}),
    "polygon_world": (_polygon([(-180, -90), (180, -90), (180, 90), (-180, 90)]), EVERY_POINT),
}

TEXTS: dict[str, str] = {
    "empty": "",
    "only_signs": "?! ... --",
    "twice": "Fire! fire",
    "thousand": LONG_TEXT,
    "tokyo": "東京タワー　展望台",
    "cafe": "CAFÉ au lait",
    "strasse": "HAUPTSTRASSE 7",
    "or_word": "this or that",
    "wifi": "Wi-Fi hotspot",
    "arabic": "مقهى قديم",
    "hindi": "हिन्दी किताब",
    "cyrillic": "КОФЕ навынос",
    "wide": "ＪＡＺＺ　２４",
}

KEYWORDS: dict[str, tuple[str, set[str]]] = {
    "one_word": ("fire", {"twice"}),
    "same_word_twice": ("fire AND fire", {"twice"}),
    "same_word_or": ("fire OR FIRE", {"twice"}),
    "far_words": ("w0 w999", {"thousand"}),
    "either": ("w500 OR fire", {"thousand", "twice"}),
    "fifty_clauses": (FIFTY, {"thousand"}),
    "fifty_clauses_one_fails": (FIFTY + " AND nowhere", set()),
    "japanese": ("東京タワー", {"tokyo"}),
    "japanese_part": ("東京", {"tokyo"}),
    "composed": ("café", {"cafe"}),
    "decomposed": ("cafe\u0301", {"cafe"}),
    "without_accent": ("cafe", set()),
    "sharp_s": ("hauptstraße", {"strasse"}),
    "quoted_or": ('this AND "or"', {"or_word"}),
    "quoted_or_alone": ('"OR"', {"or_word"}),
    "lower_case_or": ("or that", {"or_word"}),
    "cut_word": ("wi-fi", {"wifi"}),
    "nested": ("(fire AND (gone OR fire)) OR (hotspot AND (fi wi))", {"twice", "wifi"}),
    "deep": ("((((((((fire))))))))", {"twice"}),
    "arabic_word": ("مقهى", {"arabic"}),
    "hindi_word": ("हिन्दी AND किताब", {"hindi"}),
    "cyrillic_word": ("кофе", {"cyrillic"}),
    "full_width": ("jazz 24", {"wide"}),
    "absent": ("nosuchword", set()),
}

CLOCK: dict[str, int] = {
    "before": -1,
    "at": 0,
    "last": HOUR - 1,
    "end": HOUR,
    "after": 2 * HOUR,
}

LIVES: dict[str, tuple[list[Times], set[str]]] = {
    "starts_at_ts": ([{"from": 0}], {"at", "last", "end", "after"}),
    "ends_at_ts": ([{"from": -HOUR, "until": 0}], {"before"}),
    "an_hour": ([{"from": 0, "until": HOUR}], {"at", "last"}),
    "one_millisecond": ([{"from": 0, "until": 1}], {"at"}),
    "between_objects": ([{"from": 1, "until": HOUR - 1}], set()),
    "deleted": ([{"from": -HOUR}, {"gone": HOUR}], {"before", "at", "last"}),
    "deleted_at_ts": ([{"from": -HOUR}, {"gone": 0}], {"before"}),
    "deleted_before_expiry": ([{"from": 0, "until": 3 * HOUR}, {"gone": HOUR}], {"at", "last"}),
    "born_again": ([{"from": 0}, {"gone": HOUR}, {"from": 2 * HOUR}], {"at", "last", "after"}),
    "born_again_at_once": ([{"from": 0}, {"gone": HOUR}, {"from": HOUR}], {"at", "last", "end", "after"}),
    "expired_born_again": ([{"from": -HOUR, "until": 0}, {"from": HOUR}], {"before", "end", "after"}),
}


def _object(object_id: str, lon: float, lat: float, text: str, at: int = 0) -> dict[str, Any]:
    return {"object_id": object_id, "ts": NOON + at, "lon": lon, "lat": lat, "text": text}


def object_rows() -> list[dict[str, Any]]:
    """All objects: those about points, about texts, about time."""
    points = [_object(name, lon, lat, "point") for name, (lon, lat) in POINTS.items()]
    texts = [_object(name, 50.0, 10.0, text) for name, text in TEXTS.items()]
    return points + texts + [_object(name, -100.0, 40.0, "clock", at) for name, at in CLOCK.items()]


def _insertion(subscription_id: str, keywords: str, region: Any, life: Times) -> dict[str, Any]:
    until = life.get("until")
    return {
        "op": "insert",
        "subscription_id": subscription_id,
        "keywords": keywords,
        "bbox" if isinstance(region, list) else "geometry" if "type" in region else "circle": region,
        "created_at": NOON + life["from"],
        "expires_at": None if until is None else NOON + until,
    }


def request_rows() -> list[dict[str, Any]]:
    """All requests."""
    rows = [_insertion(name, "point", region, ALWAYS) for name, (region, _) in REGIONS.items()]
    rows += [_insertion(name, words, [49, 9, 51, 11], ALWAYS) for name, (words, _) in KEYWORDS.items()]
    for name, (lives, _) in LIVES.items():
        for life in lives:
            if "gone" in life:
                rows.append({"op": "delete", "subscription_id": name, "at": NOON + life["gone"]})
            else:
                rows.append(_insertion(name, "clock", [-100, 40, -100, 40], life))
    return rows


def expected() -> dict[str, set[str]]:
    """The objects of each subscription, by hand."""
    tables: tuple[dict[str, tuple[Any, set[str]]], ...] = (REGIONS, KEYWORDS, LIVES)
    return {name: found for table in tables for name, (_, found) in table.items()}


def found_by(pairs: list[tuple[str, str]]) -> dict[str, set[str]]:
    """The objects of each subscription, of those asked for."""
    found: dict[str, set[str]] = {name: set() for name in expected()}
    for object_id, subscription_id in pairs:
        found[subscription_id].add(object_id)
    return found


def write_files(folder: Path) -> tuple[Path, Path]:
    """The world as two files."""
    return (
        write_rows(folder / "objects.jsonl", object_rows()),
        write_rows(folder / "requests.jsonl", request_rows()),
    )


def test_the_twin_agrees_with_the_table(tmp_path: Path) -> None:
    objects, requests = write_files(tmp_path)
    outcome = twin.outcome_of([LogFile("objects", objects), LogFile("requests", requests)])
    assert found_by(sorted(outcome.pairs)) == expected()
    assert not outcome.rejected


@pytest.mark.parametrize(
    ("planner", "workers", "kinds", "cut"),
    [
        ("grid", 1, ("requests", "objects"), []),
        ("kd_tree", 16, ("objects", "requests"), ["--max-objects", "7"]),
    ],
)
def test_every_edge_case(tmp_path: Path, planner: str, workers: int, kinds: tuple[str, str], cut: list[str]) -> None:
    files = dict(zip(("objects", "requests"), write_files(tmp_path)))
    home = new_home(tmp_path / "home", planner=planner, workers=workers)
    for kind in kinds:
        said = home.ingest(kind, [files[kind]])
        assert (said["rejected"], said["rejects_by_reason"]) == (0, {})
    home.run("plan")
    home.match(*cut)
    _assert_as_by_hand(home)


def test_objects_matched_before_any_request_is_known(tmp_path: Path) -> None:
    objects, requests = write_files(tmp_path)
    home = new_home(tmp_path / "home", planner="kd_tree", workers=3)
    home.ingest("objects", [objects])
    home.match()
    home.ingest("requests", [requests])
    home.match()
    _assert_as_by_hand(home)


def _assert_as_by_hand(home: Home) -> None:
    pairs = [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()]
    assert len(pairs) == len(set(pairs))
    assert found_by(pairs) == expected()


def test_the_format_of_run_applies_to_objects(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", planner="grid", workers=2, lateness_seconds=60)
    landing = tmp_path / "landing"
    for kind in ("objects", "requests"):
        (landing / kind).mkdir(parents=True)
    asked = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 9, 9]}
    asked |= {"created_at": moment(-1)}
    write_rows(landing / "requests" / "r.jsonl", [asked])
    row = {"ts": moment(0), "lon": 1.0, "lat": 1.0, "text": "tea"}
    write_rows(landing / "objects" / "left.jsonl", [row | {"object_id": "left"}])
    assert set(home.run("run", landing, "--format", "csv")["ingest"]) == {"requests"}
    write_rows(landing / "objects" / "taken.csv", [row | {"object_id": "taken"}])
    document = home.run("run", landing, "--format", "csv")
    assert (document["ingest"]["objects"]["files"], document["match"]["matches"]) == (1, 1)
    assert [one for one, *_ in home.exported()] == ["taken"]
