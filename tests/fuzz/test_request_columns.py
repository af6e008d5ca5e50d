"""Requests parsed in columns give the same rows and rejects as the parser of single requests, however they are cut."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import InputFileError
from pststream.input import json_reader, parquet_reader
from pststream.input.parse_requests import REQUESTS, parse_request_chunk, parse_requests, request_fields
from pststream.input.readers import read_requests
from pststream.input.row_chunks import REJECTED, RecordChunk, RequestChunk
from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.registry import KINDS
from tests import worlds
from tests.conformance.square_kind import SQUARE
from tests.fuzz.cases import cases, scale, trying
from tests.fuzz.mutations import mutated
from tests.fuzz.values import any_value
from tests.oracles.records import read_records

NOW = datetime(2026, 5, 1, 12, 30, 0, 5, tzinfo=UTC)
ZONES = ("UTC", "Europe/Stockholm")
OWNERS = ("", "x", "7")
UNITS = (None, None, "ms", "s")
OTHER_FIELDS = tuple("note at kind width expires_at bbox keywords op owner owner é payload".split())
FREE_FIELDS = tuple("x x note at kind é".split())
NUMBERS = (
    *(
        "0 -0 0.0 -0.0 1 -1 1.5 90 -90.0 180 180.0 -180 1e1 1E-2 -1.25e+2 01 1. .5 +1 17.000000000000001 "
        "59.329323456789012345 0.1 0.00001 0.00012 179.99999999999999 180.00000000000001 90.000000000000007 "
        "9007199254740993 123456789012345678 5e-324 1e999 - 1234567890123456.5 0.30000000000000004 100.10 NaN "
        "Infinity"
    ).split(),
    *("0" * 50, "0." + "3" * 50),
)
WORDS = tuple(r"tea Coffee AND OR ( ) ice-cream a_1 x,y \" thé ! and a b c \t".split())
VALUES = (
    *('"x"', '""', "null", "true", "[]", "{}", '"\\u00e9"', '"é"', "7", "7.5", "1.50", "-0.0", "1e5", "[1, 2.50]"),
    *('[ "a" ,["b"] ]', '{"a": 1}', '{"a":1,"a":2}', "[1,]", '"2026-01-01"', '"2026-03-29T02:30:00"', "1767225600000"),
    *('"1767225600000"', '"2026-01-01T00:00:00.000Z"', '"9999-12-31T23:59:59.999999Z"', '" 2026-01-01 "', "17672256e5"),
    *('"range"', '"square"', '"cube"', '"[0, 0, 1, 1]"', '"insert"', '"delete"'),
    *("-0", "0.5", "0.50", "12345678901234567.5"),
    *("20260113", '"20260113"', "20260113.0", "2026", "1767225600", '"1767225600.25"', "1767225600.25"),
    *('"1.7672256e12"', "202601130900", '"20260113090000"', '"2025-12-31T24:00Z"', '"2016-12-31T23:59:60Z"'),
    '"2026-01-01T00:00:00z"',
)
BLANKS = ("", "", "", "", " ", "\t", "  ", "\r")
COUNTS = ("1", "10", "10.0", "0", "-1", "11", "9007199254740992", "9007199254740993", "99999999999999999999", "1e1")
STOP_WORDS = ('"en"', '"Swedish"', '"xx"', '["a", "b"]', '"[]"', '""', "null", "7", '["don\'t"]')
DURATIONS = ('"72h"', '"1h"', '"90m"', '"3600s"', '"2d"', '"0s"', '"1 h"', '"1H"', '"999999999d"', '""', "null", "3600")
WINDOWS = tuple(f'{{"objects": {rest}}}' for rest in ("9", "9.0", "0", '9, "x": null', '9, "x": 1'))
ALPHAS = ("0", "1", "0.5", "1.0", "1.0000001", "-0.1", "-0.0", "1e-1", '"0.5"', "null", "true")
SCALES = ("1", "50000", "50000.5", "1000000000", "1000000001", "0.5", "null", '""', "5e4")
WORDS_ALONE = ("tea cake", "a b c", "FOR land", "AND-x", '\\"AND\\" tea', "thé", "(tea)", "tea OR a", "tea\u00a0AND a")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks and chunks so small that small files have many, and add a kind without a parser of columns."""
    monkeypatch.setattr(json_reader, "BLOCK_BYTES", 700)
    for module in (json_reader, parquet_reader):
        monkeypatch.setattr(module, "MAX_CHUNK_ROWS", 7)
    monkeypatch.setitem(KINDS, SQUARE.name, SQUARE)


LIMITS = (
    RequestLimits(),
    RequestLimits(max_k=10, max_window_steps=72, max_past_steps=24 * 366),
    RequestLimits(max_id_bytes=4, max_payload_bytes=40, max_expression_words=3),
)


def check(path: Path, zone: str, limits: RequestLimits, owner: str = "x", unit: str | None = None) -> int:
    """Parse a file in both ways, compare, and return how many rows were parsed in columns."""
    try:
        slow = [parse_requests(chunk, NOW, zone, limits, owner, unit) for chunk in read_records(str(path), None)]
    except InputFileError:
        slow = []
    fast, left = [], []
    try:
        for chunk in read_requests(str(path), None, request_fields()):
            fast.append(parse_request_chunk(_counting(chunk, left), NOW, zone, limits, owner, unit))
    except InputFileError:
        fast = []
    for place, schema in enumerate((REQUESTS, REJECTED)):
        expected = pa.Table.from_batches([both[place] for both in slow], schema)
        result = pa.Table.from_batches([both[place] for both in fast], schema)
        result.validate(full=True)
        for name in schema.names:
            assert repr(result[name].to_pylist()) == repr(expected[name].to_pylist()), name
    return sum(sum(map(len, both)) for both in fast) - sum(left)


def _counting(chunk: RequestChunk, left: list[int]) -> RequestChunk:
    """Append to `left` how many rows the row parser gets."""

    def records(places: np.ndarray) -> RecordChunk:
        left.append(len(places))
        return chunk.records(places)

    return replace(chunk, records=records)


def test_lines_of_near_plain_json(tmp_path: Path) -> None:
    in_columns = 0
    for number, rnd in cases("request columns", 400):
        path = tmp_path / "r.jsonl"
        path.write_bytes(b"\n".join(_lines(rnd)))
        with trying(("near plain", number)):
            in_columns += check(path, rnd.choice(ZONES), LIMITS[number % 3], rnd.choice(OWNERS), rnd.choice(UNITS))
    assert in_columns > scale(1_000)


def test_lines_of_subscriptions_with_memory(tmp_path: Path) -> None:
    in_columns = 0
    for number, rnd in cases("requests with memory", 400):
        path = tmp_path / "r.jsonl"
        path.write_bytes(b"\n".join(_lines(rnd, with_memory=True)))
        with trying(("with memory", number)):
            in_columns += check(path, rnd.choice(ZONES), LIMITS[number % 3], rnd.choice(OWNERS))
    assert in_columns > scale(1_000)


def _lines(rnd: random.Random, with_memory: bool = False) -> Iterator[bytes]:
    for number in range(rnd.randrange(1, 30)):
        insertion = _insertion_with_memory if with_memory else _insertion
        members = _deletion(rnd, number) if rnd.randrange(4) == 0 else insertion(rnd, number)
        if rnd.randrange(3) == 0:
            free = [(rnd.choice(FREE_FIELDS), rnd.choice(VALUES)) for _ in range(rnd.choice((0, 1, 1, 2)))]
            members.append(("payload", _object(rnd, free).strip()))
        for _ in range(rnd.choice((0, 0, 0, 0, 0, 1, 2))):
            name = rnd.choice(OTHER_FIELDS)
            members.append((name, rnd.choice(VALUES)))
        if rnd.randrange(6) == 0:
            rnd.shuffle(members)
        line = _object(rnd, members).encode()
        yield mutated(rnd, line).replace(b"\n", b" ") if rnd.randrange(12) == 0 else line


def _object(rnd: random.Random, members: list[tuple[str, str]]) -> str:
    blank = [rnd.choice(BLANKS) for _ in range(6)]
    joined = f"{blank[0]},{blank[1]}".join(f'"{name}"{blank[2]}:{blank[3]}{value}' for name, value in members)
    return f"{blank[4]}{{{blank[0]}{joined}{blank[5]}}}{blank[1]}"


def _deletion(rnd: random.Random, number: int) -> list[tuple[str, str]]:
    at = rnd.choice(('"2026-01-02T00:00:00Z"', '"2026-10-25T02:30:00"', "1767225600000", "null", rnd.choice(VALUES)))
    return [("op", '"delete"'), ("subscription_id", _identifier(rnd, number)), ("at", at)]


def _insertion(rnd: random.Random, number: int) -> list[tuple[str, str]]:
    members = [("op", '"insert"'), ("subscription_id", _identifier(rnd, number)), ("keywords", _keywords(rnd))]
    shape = rnd.randrange(9)
    if shape < 5:
        members.append(("bbox", _numbers(rnd, [_number(rnd, low) for low in (-180, -90, 0, 0)])))
    elif shape < 7:
        sides = [("lon", _number(rnd, -180)), ("lat", _number(rnd, -90)), ("radius_m", _radius(rnd))]
        rnd.shuffle(sides)
        members.append(("circle", _object(rnd, sides[: rnd.choice((3, 3, 3, 3, 2))])))
    else:
        members.append(("geometry", _geometry(rnd)))
    if rnd.randrange(2):
        members.append(("created_at", rnd.choice(('"2026-01-01T00:00:00.000Z"', rnd.choice(VALUES)))))
    if rnd.randrange(4) == 0:
        members.append(("expires_at", rnd.choice(('"2026-02-01T00:00:00Z"', "null", rnd.choice(VALUES)))))
    return members


def _insertion_with_memory(rnd: random.Random, number: int) -> list[tuple[str, str]]:
    """Draw a request of a kind with memory, whose fields are mostly in a common form and mostly valid."""
    kind = rnd.choice(("knn", "topk", "frequent_terms"))
    members = [("op", '"insert"'), ("subscription_id", _identifier(rnd, number)), ("kind", f'"{kind}"')]
    members.append(("k", _mostly(rnd, "7", COUNTS)))
    if kind == "frequent_terms":
        sides = f"[{rnd.randrange(9)}, 1.5, 20, {rnd.choice(('30', _number(rnd, -90)))}]"
        members += [("bbox", sides), ("step", _mostly(rnd, '"1h"', DURATIONS))]
        members += [("stop_words", rnd.choice(STOP_WORDS))] if rnd.randrange(2) else []
    else:
        place = [("lon", _mostly(rnd, "18.07", NUMBERS)), ("lat", _mostly(rnd, "-59.3", NUMBERS)), ("x", "1")]
        members.append(("point", _mostly(rnd, _object(rnd, place[:2]), ("null", "[1, 2]", _object(rnd, place)))))
        words = rnd.choice(WORDS_ALONE)
        members.append(("keywords", f'"{words}"' if kind == "topk" and rnd.randrange(9) else _keywords(rnd)))
    if kind == "knn" and rnd.randrange(2):
        members.append(("max_distance_m", rnd.choice(SCALES)))
    if kind == "topk":
        members.append(("alpha", _mostly(rnd, "0.25", ALPHAS)))
    if kind == "topk" and rnd.randrange(2):
        members.append(("distance_scale_m", rnd.choice(SCALES)))
    if kind != "knn" or rnd.randrange(2):
        members.append(("window", _mostly(rnd, '"72h"', DURATIONS + WINDOWS)))
    if rnd.randrange(2):
        members.append(("created_at", _mostly(rnd, '"2026-01-01T00:00:00.000Z"', ('"2024-12-01"', '"2027-01-01"'))))
    return [member for member in members if rnd.randrange(60)]


def _mostly(rnd: random.Random, usual: str, others: tuple[str, ...]) -> str:
    return usual if rnd.randrange(5) else rnd.choice(others)


def _identifier(rnd: random.Random, number: int) -> str:
    return rnd.choice((f'"s{number}"', f'"s{number}"', f'"s{number}"', str(number), rnd.choice(VALUES)))


def _keywords(rnd: random.Random) -> str:
    if rnd.randrange(12) == 0:
        return rnd.choice(('"*"', '"*"', '" * "', '"* a"', "null"))
    words = [rnd.choice(WORDS[:2] + WORDS[-4:-1]) for _ in range(rnd.randrange(1, 5))]
    plain = rnd.choice((" AND ", " OR ", " ", ") OR (")).join(words)
    odd = rnd.choice((" ", " ", "")).join(rnd.choice(WORDS) for _ in range(rnd.randrange(6)))
    return f'"{rnd.choice((plain, f"({plain})", f"({plain}) AND a", odd))}"'


def _number(rnd: random.Random, low: int) -> str:
    return rnd.choice(
        (repr(rnd.uniform(low, 80)), f"{rnd.uniform(low, 80):.6f}", str(rnd.randrange(80)), rnd.choice(NUMBERS))
    )


def _radius(rnd: random.Random) -> str:
    return rnd.choice((repr(10 ** rnd.uniform(0, 7.5)), str(rnd.randrange(10_000)), rnd.choice(NUMBERS)))


def _numbers(rnd: random.Random, numbers: list[str]) -> str:
    return rnd.choice(("[{}]", "[ {} ]")).format(rnd.choice((", ", ",", " , ")).join(numbers))


def _geometry(rnd: random.Random) -> str:
    polygons = [_polygon(rnd) for _ in range(rnd.choice((1, 1, 2, 2, 3)))]
    single = rnd.randrange(2)
    value: Any = {"type": "Polygon" if single else "MultiPolygon", "coordinates": polygons[0] if single else polygons}
    if rnd.randrange(8) == 0:
        value |= rnd.choice(({"crs": None}, {"type": "Point"}, {"bbox": [0, 0, 1, 1]}, {"coordinates": any_value(rnd)}))
    members = [(name, json.dumps(part)) for name, part in value.items()]
    rnd.shuffle(members)
    text = _object(rnd, members)
    return text if rnd.randrange(8) else text.replace("1", rnd.choice(NUMBERS), 1)


def _polygon(rnd: random.Random) -> list[list[list[float]]]:
    """Draw a square with perhaps a hole, in any direction; sometimes crossed, open or too short."""
    x, y, size = rnd.uniform(-170, 170), rnd.uniform(-80, 80), rnd.choice((0.0, 1e-9, 0.5, 5.0, rnd.uniform(0, 20)))
    rings = [[(x, y), (x + size, y), (x + size, y + size), (x, y + size)]]
    if rnd.randrange(3) == 0:
        rings.append([(x + size * a, y + size * b) for a, b in ((0.2, 0.2), (0.2, 0.6), (0.6, 0.6))])
    result = []
    for ring in rings:
        ring = ring[:: rnd.choice((1, -1))]
        if rnd.randrange(10) == 0:
            rnd.shuffle(ring)
        closed = [*ring, ring[0]] if rnd.randrange(15) else ring
        altitude = [rnd.choice((0, 1.5))] if rnd.randrange(10) == 0 else []
        result.append([[*position, *altitude] for position in closed])
    return result


def _polygons_as_text(rnd: random.Random) -> tuple[tuple[str | None, ...], pa.DataType]:
    shown = [mutated(rnd, _geometry(rnd).encode()).decode("utf-8", "replace") for _ in range(2)]
    return (*shown, _geometry(rnd), _geometry(rnd), "{", '{"type": "Polygon"}', "", None), pa.string()


def _polygons_as_objects(rnd: random.Random) -> tuple[tuple[Any, ...], pa.DataType]:
    """Draw polygons, or several, with perhaps a fault anywhere, of some type of number and of list."""
    whole = rnd.randrange(4) == 0
    list_of = rnd.choice((pa.list_, pa.list_, pa.large_list))
    several, kind = rnd.randrange(2), pa.int32() if whole else rnd.choice((pa.float64(), pa.float32()))
    for _ in range(4 if several else 3):
        kind = list_of(kind)
    values: list[Any] = [None]
    for _ in range(4):
        coordinates: Any = [_polygon(rnd) for _ in range(rnd.choice((1, 2, 3)))] if several else _polygon(rnd)
        if whole:
            coordinates = json.loads(json.dumps(coordinates), parse_float=lambda text: int(float(text)))
        part = coordinates
        for _ in range(rnd.randrange(1, 5) if rnd.randrange(3) == 0 else 0):
            at = rnd.randrange(len(part))
            if isinstance(part[at], list) and part[at] and rnd.randrange(4):
                part = part[at]
            elif part[at] is not None:
                part[at] = rnd.choice((None, [] if isinstance(part[at], list) else 7))
        name = rnd.choice(("MultiPolygon" if several else "Polygon",) * 6 + ("Polygon", "Point", None))
        values.append({"type": name, "coordinates": coordinates})
    members = [("type", rnd.choice((pa.string(), pa.large_string()))), ("coordinates", kind)]
    if rnd.randrange(8) == 0:
        members.append(("crs", pa.string()))
    return tuple(values), pa.struct(members)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_request_that_names_another_owner_is_no_row_of_a_column(ending: str, tmp_path: Path) -> None:
    owners = (None, "", "x", "y", "X")
    rows = [{"op": "delete", "subscription_id": str(n), "owner": owner} for n, owner in enumerate(owners)]
    path = tmp_path / f"r.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        worlds.write_rows(path, rows)
    parsed = [parse_request_chunk(chunk, NOW, owner="x") for chunk in read_requests(str(path), None, request_fields())]
    accepted, rejected = ([row for both in parsed for row in both[place].to_pylist()] for place in range(2))
    assert [(row["owner"], row["subscription_id"]) for row in accepted] == [("x", "0"), ("x", "1"), ("x", "2")]
    assert [(row["reason"], row["raw"]) for row in rejected] == [("not_yours", "y"), ("not_yours", "X")]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_requests_of_random_worlds(ending: str, tmp_path: Path) -> None:
    for number, rnd in cases(f"request worlds {ending}", 60):
        path = worlds.write_rows(tmp_path / f"requests.{ending}", worlds.request_log(rnd, rnd.randrange(1, 60)))
        with trying((ending, number)):
            check(path, rnd.choice(ZONES), LIMITS[number % 3])


def test_parquet_of_near_plain_types(tmp_path: Path) -> None:
    in_columns = 0
    names = [name for name in request_fields() if name != "centre"]
    for number, rnd in cases("request parquet", 800):
        rows = rnd.choice((1, 5, 20, 20))
        # Most files have the fields of one kind alone, as any other field makes a row a reject.
        kind = KINDS[rnd.choice(("range", "knn", "topk", "frequent_terms"))]
        fields = names if rnd.randrange(4) == 0 else [name for name in names if name in kind.fields]
        drawn = dict.fromkeys((*fields, "payload", rnd.choice(("owner", "payload", "payload"))))
        if rnd.randrange(20) == 0:
            drawn["note"] = None  # a fault of the file
        columns = {name: _column(rnd, name, rows) for name in drawn if rnd.randrange(10)}
        if len(fields) < len(names):
            columns["kind"] = pa.array([kind.name] * rows)
            if rnd.randrange(2):
                columns["created_at"] = _column(rnd, "created_at", rows)
        columns |= {name: _column(rnd, name, rows) for name in ("op", "subscription_id")}
        path = tmp_path / "r.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=6)
        with trying(("parquet", number)):
            in_columns += check(path, rnd.choice(ZONES), LIMITS[number % 3], unit=rnd.choice(UNITS))
    assert in_columns > scale(300)


_TEXT_TIMES = (None, "2026-01-01", "2026-01-01T00:00:00Z", "soon", "")
_DURATIONS = tuple(json.loads(text) if '"' in text else None for text in DURATIONS)
_OBJECT_WINDOWS = (
    *({"objects": 9}, {"objects": 2**53}, {"objects": 0}, {"objects": None}, {"objects": 9, "x": 1}),
    None,
)
_BOXES = ([0, 0, 1, 1], [170, -5, -170, 5], None, [0, 0, 1], [0, 5, 1, 1], [0, None, 1, 1])

Choice = tuple[tuple[Any, ...], pa.DataType]
"""Values of a column, and their type."""

PLAIN_CHOICES: dict[str, list[Choice]] = {
    "op": [(("insert", "insert", "delete", None, "x"), pa.string())],
    "subscription_id": [
        (("a", "b", "é", None, ""), pa.string()),
        ((1, -5, None), pa.int64()),
        ((1.0, 2.5), pa.float64()),
    ],
    "owner": [(("x", "y", None, "y"), pa.string()), ((7, None), pa.int64()), ((7.0,), pa.float64())],
    "keywords": [
        (("tea", "tea OR b-c", '"a b"', "(", "thé", "", None, "a\tb", "*"), pa.string()),
        ((1, 2), pa.int64()),
    ],
    "kind": [
        ((None, "", "range", "square"), pa.string()),
        ((1, None), pa.int64()),
        *(((kind,), pa.string()) for kind in ("knn", "topk", "frequent_terms") for _ in range(2)),
    ],
    "k": [
        *(((1, 7, 10, 11, 0, None), kind) for kind in (pa.int64(), pa.int8(), pa.float64())),
        ((7, 2**53, 2**53 + 1), pa.int64()),
        ((1.5, 7.0, float("nan")), pa.float64()),
        (("7", "", None), pa.string()),
    ],
    "alpha": [
        ((0.0, 0.5, 1.0, 1.5, float("nan"), None), pa.float64()),
        ((0, 1, None), pa.int64()),
        ((True,), pa.bool_()),
    ],
    "distance_scale_m": [
        ((1.0, 5e4, 0.5, None), pa.float32()),
        ((None,), pa.null()),
        ((50_000, 10**10), pa.int64()),
    ],
    "max_distance_m": [((None,), pa.null()), ((5e4, -0.5, None), pa.float32()), ((0, None, 10**10), pa.int64())],
    "step": [(_DURATIONS, pa.string()), (("1h",), pa.string())],
    "bbox": [
        *((_BOXES, pa.list_(kind)) for kind in (pa.float64(), pa.float32(), pa.int64())),
        (("[0,0,1,1]", "", None), pa.string()),
    ],
    "note": [(("x", 'q"', "é", "", None), pa.string()), ((1, None), pa.int32()), ((1.5, None), pa.float64())],
}
"""Choices of the columns whose types are always the same; in each list the first value of the first is valid."""


def _choices(rnd: random.Random, name: str) -> list[Choice]:
    """Return the choices of a column; those of an unknown column are of `note`."""
    point = pa.struct([(part, rnd.choice((pa.float64(), pa.int32()))) for part in ("lon", "lat", "radius_m")])
    place = pa.struct([*point][: rnd.choice((2, 2, 2, 3))])
    counted = pa.struct(
        [("objects", rnd.choice((pa.int64(), pa.float64()))), ("x", pa.int64())][: rnd.choice((1, 1, 2))]
    )
    free = {part: rnd.choice(PLAIN_CHOICES["note"]) for part in ("note", 'q"')}
    payloads = [{part: rnd.choice(values) for part, (values, _) in free.items()} for _ in range(4)]
    nested: dict[str, list[Choice]] = {
        "payload": [
            ((*payloads, None), pa.struct([(part, kind) for part, (_, kind) in free.items()])),
            (('{"a": 1}', '{"a":', "[1]", "{}", "", None), pa.string()),
        ],
        "point": [(({"lon": 1, "lat": 2}, {"lon": 1, "lat": 91}, {"lon": 1, "lat": None}, None), place)],
        "window": [(_DURATIONS, pa.string()), (("72h",), pa.string()), (_OBJECT_WINDOWS, counted)],
        "circle": [((None, {"lon": 1, "lat": 2, "radius_m": 3}, {"lon": 1, "lat": 2, "radius_m": None}), point)],
        "geometry": [((None,), pa.null()), _polygons_as_text(rnd), _polygons_as_objects(rnd)],
    }
    times: list[Choice] = [
        (_TEXT_TIMES, pa.string()),
        ((None, 0, 1_767_225_600_000, -1, 10**15, 20_260_113, 2026, 1_767_225_600, 20_260_113_090_000), pa.int64()),
        ((0, None, 2**40), pa.timestamp(rnd.choice(("us", "ns", "ms")))),
        ((0, None, 20_000), pa.date32()),
        ((0.0, 1.5, None, 1e12, 2.0260113e7, 1_767_225_600.25, float("nan")), pa.float64()),
        ((0, None), pa.timestamp("ms", "UTC")),
    ]
    known = PLAIN_CHOICES | nested
    return known.get(name, times if name.endswith("at") else known["note"])


def _column(rnd: random.Random, name: str, rows: int) -> pa.Array:
    """Draw a column; most of its values are the valid one."""
    choices = _choices(rnd, name)
    values, kind = choices[0] if rnd.randrange(4) else rnd.choice(choices)
    usual = values[0] if rnd.randrange(4) else rnd.choice(values)
    return pa.array([usual if rnd.randrange(6) else rnd.choice(values) for _ in range(rows)], kind)
