"""Generate values that no field expects, as JSON and as Parquet columns of any type."""

import datetime as dt
import decimal
import random
from typing import Any

import pyarrow as pa

TEXTS = (
    *("", " ", "\x00", "\ufeff", *"a tea 0 -1 1e3 1e999 NaN inf 0x1 ١٢ 1_0 ½".split()),
    *("1" * 5000, "1" * 5000 + "x", "1." + "0" * 2000, ("é" * 1000 + "a") * 3, "i" * 2000),
    *("2026-01-01", "2026-01-01T00:00:00Z", "2026-W01-1", "20260101T00", "2026-01-01T24:00:00Z", "0000-01-01"),
    *("9999-12-31T23:59:59.9999999-23:59", "2026-01-01T00:00:00+99:99", "1767225600000", "-62135596800001"),
    *("(", ")", "tea AND", "OR tea", '"', '"tea', "((((tea", "a OR b AND (c OR d) e", "AND", "!!!", "x " * 2000),
    *("\u0301" * 2000, "\U0001f4a9", "ﷺ" * 500, "\u202etea", "ẞ", "[0, 0, 1, 1]", '{"lon": 0, "lat": 0}', "[" * 9000),
)
NUMBERS = (0, -0.0, 1, -1, 1.5, 90, 180, 180.00001, 1e308, 5e-324, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400)


def any_value(rnd: random.Random, depth: int = 2) -> Any:
    """Generate a JSON value."""
    kind = rnd.randrange(10 if depth else 6)
    if kind < 3:
        return rnd.choice(TEXTS)
    if kind < 5:
        return rnd.choice((*NUMBERS, rnd.uniform(-200, 200), float("nan"), float("inf")))
    if kind == 5:
        return rnd.choice((None, None, True, False))
    if kind < 8:
        return [any_value(rnd, depth - 1) for _ in range(rnd.choice((0, 1, 2, 4, 4, 5)))]
    names = ("lon", "lat", "radius_m", "coordinates", "", "x", "\x00")
    found = {rnd.choice(names): any_value(rnd, depth - 1) for _ in range(rnd.randrange(5))}
    return found | {"type": rnd.choice(("Polygon", "MultiPolygon"))} if rnd.randrange(3) == 0 else found


TYPES = (
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(4), pa.bool_()),
    *(pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(38, 10), pa.decimal128(12, 2), pa.decimal256(76, 0), pa.null(), pa.date32(), pa.date64()),
    *(pa.time32("ms"), pa.time64("ns"), pa.duration("s"), pa.duration("us")),
    *(
        pa.timestamp(unit, zone)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "+05:30", "Asia/Kolkata", "No/Zone")
    ),
    *(pa.list_(pa.float64()), pa.large_list(pa.int32()), pa.list_(pa.float64(), 4), pa.list_(pa.string())),
    *(pa.struct([("lon", pa.float64()), ("lat", pa.string())]), pa.map_(pa.string(), pa.timestamp("us"))),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64()), pa.uuid(), pa.json_()),
)


def any_column(rnd: random.Random, rows: int) -> pa.Array:
    """Generate a column of any type, with extreme values."""
    kind = rnd.choice(TYPES)
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(pa.array([_of(rnd, kind.storage_type) for _ in range(rows)], kind.storage_type))
    if pa.types.is_dictionary(kind):
        return (
            pa.array([_of(rnd, kind.value_type) for _ in range(rows)], kind.value_type).dictionary_encode().cast(kind)
        )
    return pa.array([_of(rnd, kind) for _ in range(rows)], kind)


def _of(rnd: random.Random, kind: pa.DataType) -> Any:
    """Generate a value of a type, or null."""
    if rnd.randrange(6) == 0 or pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_of(rnd, kind.value_type) for _ in range(rnd.choice((0, 3, 4)))]
    if pa.types.is_fixed_size_list(kind):
        return [_of(rnd, kind.value_type) for _ in range(kind.list_size)]
    if pa.types.is_struct(kind):
        return {field.name: _of(rnd, field.type) for field in kind}
    if pa.types.is_map(kind):
        return [("k", _of(rnd, kind.item_type))]
    return _plain(rnd, kind)


def _plain(rnd: random.Random, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return rnd.choice(TEXTS)
    if pa.types.is_fixed_size_binary(kind):
        return rnd.randbytes(kind.byte_width)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return rnd.choice((b"", b"tea", b"\xff\xfe", b"\xed\xa0\x80", b"\x00" * 9))
    if pa.types.is_boolean(kind):
        return rnd.random() < 0.5
    if pa.types.is_floating(kind):
        return rnd.choice(
            (0.0, -0.0, 1.5, 89.5, 400.0, float("nan"), float("inf"), -1e300 if kind.bit_width == 64 else 2.0)
        )
    if pa.types.is_decimal(kind):
        return decimal.Decimal(rnd.choice((0, 100, -100, 12300)))
    return _bits(rnd, kind)


def _bits(rnd: random.Random, kind: pa.DataType) -> Any:
    """Generate an integer, or a time from any integer, including years that Python cannot represent."""
    signed = not pa.types.is_integer(kind) or not str(kind).startswith("u")
    width = kind.bit_width
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    number = rnd.choice((0, 1, low, high, rnd.randint(low, high), max(low, min(high, 1_767_225_600_000))))
    if pa.types.is_date64(kind):
        number = number // 86_400_000 // 2 * 86_400_000
    if pa.types.is_time(kind):
        number = rnd.randrange(86_000_000)
    if pa.types.is_integer(kind):
        return number
    whole = pa.array([number], pa.int64() if width == 64 else pa.int32())
    return whole.cast(kind)[0] if not pa.types.is_date32(kind) else dt.date(2026, 1, 1)
