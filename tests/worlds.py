"""Generate random worlds of objects and requests with many coincidences and few words, as files of users.

Coordinates, times and words come from few values, so that points fall on edges and corners, validity begins and ends
at the very ts of objects, and expressions hold about as often as not. One generator serves seeded worlds (a
`random.Random`) and Hypothesis (its own `Random`, which it can shrink).
"""

import csv
import gzip
import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from hypothesis import strategies as st

from tests.oracles.twin_expressions import words_of
from tests.oracles.twin_regions import distance_m
from tests.oracles.twin_rows import LogFile

Row = dict[str, Any]
Rows = list[Row]

START = datetime(2026, 3, 1, tzinfo=UTC)
STEP = timedelta(minutes=10)
STEPS = 300
LATENESS_STEPS = 60

LONS = (-180.0, -179.5, -90.0, -10.0, 0.0, 1.0, 1.5, 10.0, 90.0, 179.5, 180.0)
LATS = (-90.0, -89.5, -45.0, 0.0, 1.0, 1.5, 45.0, 89.5, 90.0)
CITY = (18.07, 59.33)
RADII_M = (0.0, 1.0, 120.0, 2_500.0, 60_000.0, 120_000.0, 1_700_000.0, 9_000_000.0, 20_100_000.0)
WORDS = (
    *("coffee", "Tea", "free", "cheap", "FIRE", "taxi", "park", "jazz", "market", "snow_day"),
    *("Straße", "café", "東京", "駅", "кофе", "مقهى", "हिन्दी", "ΣΊΣΥΦΟΣ", "or", "and", "24", "x1"),
)
JOINS = (" ", "  ", ", ", " - ", "! ", "\t", " / ", " … ")


@dataclass(frozen=True)
class World:
    """The rows of the two logs, file by file, and the setting `lateness_seconds` that goes with them."""

    object_files: list[Rows]
    request_files: list[Rows]
    lateness_seconds: int = LATENESS_STEPS * 600


@dataclass(frozen=True)
class WrittenWorld:
    """A world as files."""

    objects: list[Path]
    requests: list[Path]
    lateness_seconds: int

    @property
    def log(self) -> list[LogFile]:
        """All files; the order between the two kinds has no meaning."""
        return [LogFile("objects", p) for p in self.objects] + [LogFile("requests", p) for p in self.requests]


# Values ------------------------------------------------------------------------------------------------------


def moment(step: int) -> str:
    """Return a time of the lattice as ISO 8601."""
    return (START + step * STEP).isoformat().replace("+00:00", "Z")


def some_point(rnd: random.Random) -> tuple[float, float]:
    """Draw a point of the lattice, of the city, or anywhere."""
    kind = rnd.randrange(10)
    if kind < 4:
        return rnd.choice(LONS), rnd.choice(LATS)
    if kind < 9:
        return round(CITY[0] + rnd.randint(-20, 20) / 1000, 3), round(CITY[1] + rnd.randint(-20, 20) / 1000, 3)
    return round(rnd.uniform(-180, 180), 4), round(rnd.uniform(-90, 90), 4)


def some_text(rnd: random.Random) -> str:
    """Draw a text of few words, some of them twice, sometimes empty or in another case."""
    count = rnd.choice((0, 1, 1, 2, 3, 4, 5, 8, 12))
    picked = [_some_word(rnd) for _ in range(count)]
    text = rnd.choice(JOINS).join(picked)
    return rnd.choice((text, text, text.upper(), text.lower()))


def _some_word(rnd: random.Random) -> str:
    return WORDS[min(rnd.randrange(len(WORDS)), rnd.randrange(len(WORDS)))]


def some_expression(rnd: random.Random, depth: int = 2) -> str:
    """Draw a keyword expression of AND, OR and phrases, sometimes with NOT before words that it does not need."""
    needed = _nested_expression(rnd, depth)
    words = set(words_of(needed))
    others = [word for word in WORDS if words.isdisjoint(words_of(word))]
    if rnd.randrange(4) or not others:
        return needed
    first, second = rnd.choice(others), rnd.choice(others)
    excluded = rnd.choice((first, f'"{first} {second}"', f"({first} OR {second})", f"({first} AND NOT {second})"))
    if excluded == f"({first} AND NOT {first})":
        excluded = first
    return f"{needed}{rnd.choice((' NOT ', ' AND NOT '))}{excluded}"


def _nested_expression(rnd: random.Random, depth: int) -> str:
    kind = rnd.randrange(6) if depth else 0
    if kind < 2:
        if rnd.randrange(6) == 0:
            return f'"{rnd.choice(WORDS[:3])} {rnd.choice(WORDS[:3])}"'
        return quoted(_some_word(rnd), rnd)
    parts = [_nested_expression(rnd, depth - 1) for _ in range(rnd.choice((2, 2, 3)))]
    if kind < 4:
        return "(" + " OR ".join(parts) + ")"
    return "(" + rnd.choice((" AND ", " ")).join(parts) + ")"


def quoted(word: str, rnd: random.Random) -> str:
    """Return a word as a keyword, in quotes where they are required and sometimes elsewhere."""
    return f'"{word}"' if word in ("AND", "OR") or rnd.randrange(8) == 0 else word


def some_region(rnd: random.Random) -> Row:
    """Draw a `bbox`, a `circle` or a `geometry`."""
    kind = rnd.randrange(6)
    if kind < 2:
        return {"circle": _some_circle(rnd)}
    return {"geometry": some_polygon(rnd)} if kind < 4 else {"bbox": some_box(rnd)}


def some_box(rnd: random.Random) -> list[float]:
    """Draw west, south, east, north with corners at points of objects."""
    kind = rnd.randrange(10)
    (x0, y0), (x1, y1) = some_point(rnd), some_point(rnd)
    south, north = sorted((y0, y1))
    if kind == 0:
        return [-180.0, -90.0, 180.0, 90.0]
    if kind == 1:
        return [x0, y0, x0, y0]
    if kind == 2:
        return [x0, south, x0, north]
    if kind < 5:
        return [max(x0, x1), south, min(x0, x1), north]
    if kind < 7:
        return [*_city_corner(rnd, -1), *_city_corner(rnd, 1)]
    return [min(x0, x1), south, max(x0, x1), north]


def _city_corner(rnd: random.Random, side: int) -> tuple[float, float]:
    return tuple(round(c + side * rnd.randint(0, 15) / 1000, 3) for c in CITY)  # type: ignore[return-value]


def _some_circle(rnd: random.Random) -> Row:
    lon, lat = some_point(rnd)
    return {"lon": lon, "lat": lat, "radius_m": rnd.choice(RADII_M)}


def some_polygon(rnd: random.Random) -> Row:
    """Draw a valid Polygon or MultiPolygon with corners at points of objects and edges through other points."""
    west, south, east, north = some_box(rnd)
    if west > east:
        # A ring needs area, and the two rings must not share an edge.
        west = (180.0 + east) / 2 if west == 180.0 else west
        east = (west - 180.0) / 2 if east == -180.0 else east
        return {"type": "MultiPolygon", "coordinates": [[_some_ring(rnd, west, south, 180.0, north)],
                                                        [_some_ring(rnd, -180.0, south, east, north)]]}  # fmt: skip
    if rnd.randrange(4):
        return {"type": "Polygon", "coordinates": [_some_ring(rnd, west, south, east, north)]}
    west, south, east, north = _with_area(west, south, east, north)
    x, y = (west + east) / 2, (south + north) / 2
    hole = [(x, south), ((west + x) / 2, y), (x, north), ((x + east) / 2, y)]
    return {"type": "Polygon", "coordinates": [_rectangle(west, south, east, north), _closed(hole[1:])]}


def _some_ring(rnd: random.Random, west: float, south: float, east: float, north: float) -> list[list[float]]:
    """Draw a simple ring that fills a part of the box."""
    west, south, east, north = _with_area(west, south, east, north)
    x, y = (west + east) / 2, (south + north) / 2
    rings = (
        [(west, south), (east, south), (west, north)],
        [(west, y), (x, south), (east, y), (x, north)],
        [(west, south), (east, south), (east, y), (x, y), (x, north), (west, north)],
        [(west, south), ((west + x) / 2, south), (east, north), ((x + east) / 2, north)],
        [(west, south), (x, y), (east, south), (east, north), (west, north)],
    )
    ring = rnd.choice(rings)
    return _closed(ring if rnd.randrange(2) else ring[::-1])


def _with_area(west: float, south: float, east: float, north: float) -> tuple[float, float, float, float]:
    """Widen the box where it has no area."""
    if west == east:
        west, east = (west - 0.5, east) if east > 179.5 else (west, east + 0.5)
    if south == north:
        south, north = (south - 0.5, north) if north > 89.5 else (south, north + 0.5)
    return west, south, east, north


def _rectangle(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return _closed([(west, south), (east, south), (east, north), (west, north)])


def _closed(ring: Sequence[tuple[float, float]]) -> list[list[float]]:
    """Close a ring; an edge that spans more than 180 degrees, and no whole parallel, gets a position in its middle."""
    closed = [list(ring[0])]
    for (x1, y1), (x2, y2) in zip(ring, (*ring[1:], ring[0])):
        if abs(x1 - x2) > 180 and not (y1 == y2 and abs(x1 - x2) == 360):
            closed.append([(x1 + x2) / 2, (y1 + y2) / 2])
        closed.append([x2, y2])
    return closed


OFFENSES, LEVELS = ("robbery", "theft", "5", " 3 ", "2026-03-02"), (0, 3, 5, 5.5, -1, None)
ATTRIBUTES = ("offense", "level", "checked", "seen")
"""Columns of objects that are no field."""

TESTS: dict[str, tuple[Any, ...]] = {
    "offense": ("robbery", ["robbery", "5", 3], 5, {"exists": True}, {"gte": "2026-03-01"}, {"lt": 4}),
    "level": ({"gte": 3}, {"gt": 3}, 5, [0, 5.5], {"gt": -1, "lte": 5}, {"exists": False}, "5"),
    "checked": (True, [False, "True"], {"exists": True}),
    "seen": ({"gte": "2026-03-01 12:00:00+02:00"}, {"lt": "2026-03-02"}, "2026-03-01T10:00:00Z"),
}
"""Tests of attributes in conditions."""


def some_attributes(seed: str) -> Row:
    """Draw the columns of an object that are no field; some lack a value."""
    rnd = random.Random(seed)
    row: Row = {"offense": rnd.choice((*OFFENSES, None)), "level": rnd.choice(LEVELS)}
    return row | {"checked": rnd.choice((True, False, None)), "seen": rnd.choice((None, moment(rnd.randrange(STEPS))))}


def some_where(seed: str) -> Row:
    """Draw the field `where`, for about one in three."""
    rnd = random.Random(seed)
    if rnd.randrange(3):
        return {}
    chosen = rnd.sample(ATTRIBUTES, rnd.choice((1, 1, 2)))
    return {"where": {name: rnd.choice(TESTS[name]) for name in chosen}}


def some_stop_words(seed: str) -> Row:
    """Draw the field `stop_words`, for about one in two."""
    rnd = random.Random(seed)
    lists = ("en", "sv", ["tea", "東京", "snow_day"], ["Coffee", "FREE", "駅 京"], list(WORDS[:8]), [])
    return {"stop_words": rnd.choice(lists)} if rnd.randrange(2) else {}


# Logs --------------------------------------------------------------------------------------------------------


def object_log(rnd: random.Random, count: int) -> Rows:
    """Draw objects in about ascending order of time; some late, repeated or invalid."""
    rows: Rows = []
    for n in range(count):
        step = n * STEPS // max(count, 1) + rnd.choice((0, 0, 0, -2, 3, -LATENESS_STEPS, -LATENESS_STEPS - 40))
        lon, lat = some_point(rnd)
        row = {"object_id": f"o{n}", "ts": moment(step), "lon": lon, "lat": lat, "text": some_text(rnd)}
        row |= some_attributes(f"{n} {lon} {lat}")
        if rows and rnd.randrange(20) == 0:
            row["object_id"] = rnd.choice(rows)["object_id"]
        if rnd.randrange(25) == 0:
            row |= rnd.choice(({"lat": 91.0}, {"lon": -180.5}, {"ts": None}, {"lon": None}, {"object_id": None}))
        rows.append(row)
    return rows


def request_log(rnd: random.Random, count: int) -> Rows:
    """Draw requests of several ids, interleaved at random."""
    lives: list[Rows] = []
    while sum(map(len, lives)) < count:
        lives.append(_life(rnd, f"s{len(lives)}"))
    rows: Rows = []
    while lives:
        life = rnd.choice(lives)
        rows.append(life.pop(0))
        lives = [life for life in lives if life]
    return rows[:count]


def _life(rnd: random.Random, subscription_id: str) -> Rows:
    """Draw insertions and deletions of one id; some do not apply, some are invalid."""
    step = rnd.randint(-20, STEPS * 2 // 3)
    rows = [insertion(rnd, subscription_id, step)]
    while rnd.randrange(3) == 0:
        step += rnd.choice((0, 5, 20, 60, 120))
        rows.append({"op": "delete", "subscription_id": subscription_id, "at": moment(step)})
        if rnd.randrange(2) == 0:
            step += rnd.choice((-3, 0, 0, 10))
            rows.append(insertion(rnd, subscription_id, step))
            if rnd.randrange(2) == 0:
                rows[-2:] = [as_replacement(rows[-1])]
    if rnd.randrange(20) == 0:
        rows.insert(0, {"op": "delete", "subscription_id": subscription_id, "at": moment(step)})
    if rnd.randrange(20) == 0:
        rows.insert(0, insertion(rnd, subscription_id, step) | rnd.choice(BAD_FIELDS))
    if rnd.randrange(20) == 0 and rows[0]["op"] == "insert":
        rows[0] = as_replacement(rows[0])
    return rows


def as_replacement(row: Row) -> Row:
    """Return a replacement with the fields of an insertion, at the time from which that is valid."""
    start = {"op": "replace", "at": row["created_at"]}
    return {name: value for name, value in row.items() if name != "created_at"} | start


BAD_FIELDS: tuple[Row, ...] = (
    {"keywords": "(tea"},
    {"keywords": "tea OR"},
    {"keywords": ""},
    {"keywords": None},
    {"keyword": "tea"},
    {"k": 3},
    {"bbox": [0.0, 10.0, 1.0, 9.0], "circle": None, "geometry": None},
    {"bbox": [0.0, 0.0, 181.0, 1.0], "circle": None, "geometry": None},
    {"bbox": None, "circle": None, "geometry": None},
    {"bbox": [0.0, 0.0, 1.0, 1.0], "circle": None, "geometry": {"type": "Polygon", "coordinates": []}},
    {"bbox": None, "circle": None, "geometry": {"type": "Point", "coordinates": [0.0, 0.0]}},
    {"bbox": None, "circle": None, "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]}},
    {
        "bbox": None,
        "circle": None,
        "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [181, 0], [0, 1], [0, 0]]]},
    },
    {
        "bbox": None,
        "circle": None,
        "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]},
    },
    {
        "bbox": None,
        "circle": None,
        "geometry": {"type": "Polygon", "coordinates": [[[178, -2], [-178, -2], [-178, 2], [178, 2], [178, -2]]]},
    },
    {"bbox": None, "circle": {"lon": 0.0, "lat": 0.0, "radius_m": -1.0}, "geometry": None},
    {"op": "upsert"},
    {"created_at": "soon"},
)


def insertion(rnd: random.Random, subscription_id: str, step: int) -> Row:
    """Draw an insertion that is valid from `step` on."""
    expires = rnd.choice((None, None, None, moment(step + rnd.choice((0, 1, 30, 100)))))
    keywords = some_expression(rnd)
    times = {"created_at": moment(step), "expires_at": expires}
    head = {"op": "insert", "subscription_id": subscription_id, "keywords": keywords}
    head |= some_where(f"{subscription_id} {step}")
    return head | some_region(rnd) | times | rnd.choice(({}, {"payload": {"user": "Ada"}}))


def cut(rows: Sequence[Row], parts: int) -> list[Rows]:
    """Cut a log into consecutive files."""
    edges = [len(rows) * i // parts for i in range(parts + 1)]
    return [list(rows[a:b]) for a, b in zip(edges, edges[1:])]


def make_world(rnd: random.Random, objects: int, requests: int, object_files: int, request_files: int) -> World:
    """Draw a world of given sizes."""
    things, asked = object_log(rnd, objects), request_log(rnd, requests)
    _keep_off_circle_edges(things, asked)
    return World(cut(things, object_files), cut(asked, request_files))


def _keep_off_circle_edges(things: Rows, asked: Rows) -> None:
    """Widen circles whose edge is within a millimetre of a point, where rounding would decide."""
    for circle in (row["circle"] for row in asked if row.get("circle")):
        while any(_at_edge(circle, row) for row in things if row["lon"] is not None):
            circle["radius_m"] += 0.5


def _at_edge(circle: Row, thing: Row) -> bool:
    away = distance_m(circle["lon"], circle["lat"], thing["lon"], thing["lat"])
    same_point = (circle["lon"], circle["lat"]) == (thing["lon"], thing["lat"])
    return not same_point and abs(away - circle["radius_m"]) < 1e-3


def random_world(seed: int, objects: int = 150, requests: int = 120, files: int = 5) -> World:
    """Draw a seeded world, the same on every run."""
    return make_world(random.Random(seed), objects, requests, files, max(1, files - 2))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw small worlds that Hypothesis can shrink."""
    rnd = draw(st.randoms(use_true_random=False))
    objects, requests = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    return make_world(rnd, objects, requests, draw(st.integers(1, 3)), draw(st.integers(1, 3)))


# Files -------------------------------------------------------------------------------------------------------

OBJECT_FORMATS = ("csv", "jsonl", "parquet", "csv.gz", "jsonl.zst", "csv.zst", "jsonl.gz")
REQUEST_FORMATS = ("jsonl", "parquet", "jsonl.gz", "jsonl.zst")
"""Files with requests of several kinds are of the formats of JSON: their fields have several types."""


def write_world(folder: Path, world: World, seed: int) -> WrittenWorld:
    """Write each file of a world in some format; names sort in log order."""
    rnd = random.Random(seed)
    objects = [
        write_rows(folder / f"objects-{n:03}.{rnd.choice(OBJECT_FORMATS)}", rows)
        for n, rows in enumerate(world.object_files)
    ]
    requests = [
        write_rows(folder / f"requests-{n:03}.{rnd.choice(_formats_of(rows))}", rows)
        for n, rows in enumerate(world.request_files)
    ]
    return WrittenWorld(objects, requests, world.lateness_seconds)


def _formats_of(requests: Rows) -> tuple[str, ...]:
    several = any("kind" in row for row in requests)
    return tuple(one for one in REQUEST_FORMATS if not several or one.startswith("jsonl"))


def write_rows(path: Path, rows: Rows) -> Path:
    """Write rows in the format of the file name."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".parquet"):
        pq.write_table(_arrow(rows, "requests" if name.startswith("requests") else "objects"), path)
        return path
    content = (_csv(rows) if name.endswith(".csv") else _json_lines(rows)).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    if path.suffix == ".zst":
        content = zstandard.ZstdCompressor().compress(content)
    path.write_bytes(content)
    return path


OBJECT_FIELDS = ("object_id", "ts", "lon", "lat", "text")


def _csv(rows: Rows) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    fields = list(dict.fromkeys([*OBJECT_FIELDS, *ATTRIBUTES, *_other_names(rows)]))
    writer.writerow(fields)
    writer.writerows([["" if row.get(f) is None else row[f] for f in fields] for row in rows])
    return out.getvalue()


def _other_names(rows: Rows) -> list[str]:
    """The names of attributes that are texts."""
    return sorted({name for row in rows for name in row}.difference(OBJECT_FIELDS))


def _json_lines(rows: Rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=i % 2 == 0) + "\n" for i, row in enumerate(rows))


_BOX = pa.list_(pa.float64())
_CIRCLE = pa.struct([("lon", pa.float64()), ("lat", pa.float64()), ("radius_m", pa.float64())])
_TEXTS = ("op", "subscription_id", "keywords", "created_at", "expires_at", "at")


def _arrow(rows: Rows, kind: str) -> pa.Table:
    if kind == "objects":
        others = [name for name in _other_names(rows) if name not in ATTRIBUTES]
        texts = [pa.field(name, pa.string()) for name in ("object_id", "text", "offense", *others)]
        numbers = [pa.field(name, pa.float64()) for name in ("lon", "lat", "level")]
        table = pa.Table.from_pylist(rows, schema=pa.schema([*texts, *numbers, pa.field("checked", pa.bool_())]))
        for name in ("ts", "seen"):
            times = [datetime.fromisoformat(row[name]) if row.get(name) else None for row in rows]
            table = table.append_column(name, pa.array(times, pa.timestamp("us", tz="UTC")))
        return table
    fields = [pa.field(name, pa.string()) for name in _TEXTS]
    fields.append(pa.field("payload", pa.struct([("user", pa.string())])))
    regions = [pa.field("bbox", _BOX), pa.field("circle", _CIRCLE), pa.field("geometry", pa.string())]
    # Polygons and MultiPolygons are nested to different depths, so a column has them as the text of JSON.
    regions.append(pa.field("where", pa.string()))
    nested = ("geometry", "where")
    texts = [row | {name: json.dumps(row[name]) for name in nested if row.get(name)} for row in rows]
    return pa.Table.from_pylist(texts, schema=pa.schema([*fields, *regions]))


# Subscriptions over real data --------------------------------------------------------------------------------


def subscriptions_over(
    points: Sequence[tuple[float, float]], texts: Sequence[str], count: int, seed: int, created_at: str
) -> Iterable[Row]:
    """Draw insertions as users of such data would make: co-occurring words, regions around existing places."""
    rnd = random.Random(seed)
    for n in range(count):
        words = sorted(set(words_of(rnd.choice(texts))) - {"and", "or"}) or ["nothing"]
        lon, lat = rnd.choice(points)
        yield {
            "op": "insert",
            "subscription_id": f"s{n}",
            "keywords": _keywords_from(rnd, words, texts),
            **_region_around(rnd, lon, lat),
            "created_at": created_at,
        }


def _keywords_from(rnd: random.Random, words: list[str], texts: Sequence[str]) -> str:
    picked = rnd.sample(words, min(len(words), rnd.choice((1, 2, 2, 3))))
    if rnd.randrange(4):
        return " ".join(picked)
    others = words_of(rnd.choice(texts))[:3] or ["nothing"]
    return f"{picked[0]} AND ({' OR '.join(dict.fromkeys([*picked[1:], *others]))})"


def _region_around(rnd: random.Random, lon: float, lat: float) -> Row:
    half = rnd.choice((0.0005, 0.005, 0.02, 0.05, 0.2))
    lon, lat = lon + rnd.uniform(-half, half), lat + rnd.uniform(-half, half)
    kind = rnd.randrange(6)
    if kind == 0:
        return {"circle": {"lon": round(lon, 6), "lat": round(lat, 6), "radius_m": round(half * 111_000)}}
    west, south, east, north = (round(v, 6) for v in (lon - half, lat - half, lon + half, lat + half))
    if kind == 1:
        return {"geometry": {"type": "Polygon", "coordinates": [_some_ring(rnd, west, south, east, north)]}}
    return {"bbox": [west, south, east, north]}
