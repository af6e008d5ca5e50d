"""Parse times in input rows (ISO 8601, epoch milliseconds, dates, timestamps) to microseconds since 1970 in UTC.

A cast of Arrow reads a column of ISO texts fast, but fails for the whole column on one bad text, and takes either texts
with a zone or texts without. So a cast is tried on the column; if it fails, patterns select the texts of each form.
All other texts go one by one to `datetime.fromisoformat`, which decides. What cannot be read is None, or False in the
mask; what lies outside of int64 is ±OUT_OF_RANGE_US; callers reject both.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.utc_times import from_micros, to_micros

EARLIEST_US = int(datetime(1900, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""1900-01-01: earlier times are rejected as mistakes."""

LATEST_US = int(datetime(2200, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""2200-01-01 (exclusive): later times are rejected as mistakes, such as microseconds given as milliseconds."""

LAST_US = int(datetime(10_000 - 1, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) * 1_000_000 + 999_999
"""The last microsecond of the year 9999, which many write for `never`: the latest end of a validity."""

OUT_OF_RANGE_US = 2**62
"""Stands for a time after the range of int64 microseconds; its negative for a time before."""

_MAX_MS = LAST_US // 1000
_DAY_US = 86_400_000_000

_MONTH_AND_DAY = (
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_MINUTES = "([01][0-9]|2[0-3]):[0-5][0-9]"
_SECONDS = f"{_MINUTES}:[0-5][0-9]"
_CLOCK = f"({_MINUTES}|{_SECONDS}([.][0-9]{{1,6}})?)"
_ZONE = "(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_FORMS = (
    ("^-?[0-9]{1,15}$", pa.int64()),
    (f"^[0-9]{{4}}-{_MONTH_AND_DAY}[T ]{_CLOCK}{_ZONE}$", pa.timestamp("us", "UTC")),
    (f"^[0-9]{{4}}-{_MONTH_AND_DAY}([T ]{_CLOCK})?$", pa.timestamp("us")),
    (f"^(19|20|21)[0-9]{{2}}-{_MONTH_AND_DAY}[T ]{_SECONDS}[.][0-9]{{7,9}}{_ZONE}$", pa.timestamp("ns", "UTC")),
    (f"^(19|20|21)[0-9]{{2}}-{_MONTH_AND_DAY}[T ]{_SECONDS}[.][0-9]{{7,9}}$", pa.timestamp("ns")),
)
"""Patterns of texts that a cast to the type reads without fault: milliseconds, and times in microseconds, with a zone
and without, then in nanoseconds. They leave out 29 February, which is not in each year."""

_SMALL_ZONE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?z")
"""A time that ends in z, which Python reads only as Z."""


def parse_time(value: Any, zone: str = "UTC") -> int | None:
    """Parse one value: text, whole number of milliseconds, datetime or date. Returns microseconds since 1970, or None.

    A time without a zone is local to `zone`. A local time that occurs twice, when clocks are set back, is the earlier
    one; a local time that is skipped, when clocks are set forward, has the offset before the change (as in `zoneinfo`
    with fold 0).
    """
    if isinstance(value, str):
        value = _parsed(value.strip())
    if isinstance(value, datetime):
        if value.tzinfo is None:
            naive = to_micros(value.replace(tzinfo=UTC))
            return int(_localized(np.array([naive]), zone)[0])
        return to_micros(value)
    if isinstance(value, date):
        return parse_time(datetime(value.year, value.month, value.day), zone)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000 if abs(value) <= _MAX_MS else (OUT_OF_RANGE_US if value > 0 else -OUT_OF_RANGE_US)
    return None


def parse_times(values: pa.Array, zone: str) -> tuple[np.ndarray, np.ndarray]:
    """Parse a column as `parse_time` does: microseconds since 1970, int64[n], and whether each was read, bool[n].

    `values` is string, timestamp of any unit with or without zone, date, integer or float.
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(values, zone)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _of_timestamps(values, zone)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_milliseconds(values)
    return np.zeros(len(values), np.int64), np.zeros(len(values), bool)


def _parsed(text: str) -> datetime | int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if digits.isascii() and digits.isdigit():
        return int(text) if len(digits) <= 18 else (-OUT_OF_RANGE_US if text[0] == "-" else OUT_OF_RANGE_US)
    try:
        return datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        # Python has no year 0. The year 4 has as many days, so it shows whether the text is a time.
        return -OUT_OF_RANGE_US if text.startswith("0000-") and _parsed("0004" + text[4:]) is not None else None


def _of_texts(values: pa.Array, zone: str) -> tuple[np.ndarray, np.ndarray]:
    # Most columns have the form of their first text throughout.
    present = values.drop_null()
    first = present[0].as_py() if len(present) else ""
    forms = sorted(_FORMS, key=lambda form: not re.match(form[0], first))
    if forms[0] is not _FORMS[0]:  # a cast to whole numbers would read hexadecimal digits too
        try:
            return _cast(values, forms[0][1], zone), pc.is_valid(values).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            pass  # a text has another form
    texts = pc.ascii_trim_whitespace(pc.fill_null(values, ""))
    times, read = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    left = np.flatnonzero(pc.not_equal(texts, "").to_numpy(zero_copy_only=False))
    for pattern, kind in forms:
        some = texts if len(left) == len(texts) else texts.take(pa.array(left))
        fits = pc.match_substring_regex(some, pattern)
        chosen = fits.to_numpy(zero_copy_only=False)
        if chosen.any():
            times[left[chosen]], read[left[chosen]] = _cast(some.filter(fits), kind, zone), True
            left = left[~chosen]
    for row in left:
        text = texts[int(row)].as_py()
        time = parse_time(text[:-1] + "Z" if _SMALL_ZONE.fullmatch(text) else text, zone)
        if time is not None:
            times[row], read[row] = time, True
    return times, read


def _cast(texts: pa.Array, kind: pa.DataType, zone: str) -> np.ndarray:
    """Read texts of a form (_FORMS) as microseconds since 1970; raises pa.ArrowInvalid if one has another form."""
    numbers = _whole_numbers(pc.cast(texts, kind).cast(pa.int64()))
    if pa.types.is_integer(kind):
        return numbers * 1000
    micros = numbers // 1000 if kind.unit == "ns" else numbers
    return micros if kind.tz else _localized(micros, zone)


def _of_timestamps(values: pa.Array, zone: str) -> tuple[np.ndarray, np.ndarray]:
    read = pc.is_valid(values).to_numpy(zero_copy_only=False)
    aware = pa.types.is_timestamp(values.type) and values.type.tz is not None
    unit = pa.timestamp("us", tz=values.type.tz if aware else None)
    times = _whole_numbers(_in_microseconds(values, unit))
    return (times if aware else _localized(times, zone)), read


def _in_microseconds(values: pa.Array, unit: pa.DataType) -> pa.Array:
    try:
        return pc.cast(values, options=pc.CastOptions(unit, allow_time_truncate=True)).cast(pa.int64())
    except pa.ArrowInvalid:  # days or seconds beyond the range of int64 microseconds
        seconds = pc.cast(values, pa.timestamp("s", tz=unit.tz), safe=False).cast(pa.int64())
        limit = OUT_OF_RANGE_US // 1_000_000
        clipped = pc.max_element_wise(pc.min_element_wise(seconds, limit, skip_nulls=False), -limit, skip_nulls=False)
        return pc.multiply(clipped, 1_000_000)


def _of_milliseconds(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    floats = numbers.astype(np.float64)
    read = pc.is_valid(values).to_numpy(zero_copy_only=False) & np.isfinite(floats) & (np.floor(floats) == floats)
    far = ~read | (np.abs(floats) > _MAX_MS)
    near = np.where(far, 0, numbers).astype(np.int64) * 1000
    return np.where(far, np.where(floats > 0, OUT_OF_RANGE_US, -OUT_OF_RANGE_US), near), read


def _whole_numbers(values: pa.Array) -> np.ndarray:
    return np.array(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _localized(local: np.ndarray, zone: str) -> np.ndarray:
    """Convert local microseconds to UTC; times outside the years 1900 to 9999 stay as they are."""
    if zone == "UTC" or len(local) == 0:
        return local
    place = ZoneInfo(zone)
    inside = (local >= EARLIEST_US - 2 * _DAY_US) & (local < LAST_US - 2 * _DAY_US)
    days, which = np.unique(np.where(inside, local // _DAY_US, 0), return_inverse=True)
    offsets = [_offset_of_day(int(day), place) for day in days]
    utc = np.where(inside, local - np.array([offset or 0 for offset in offsets], dtype=np.int64)[which], local)
    changing = np.array([offset is None for offset in offsets])[which]
    for row in np.flatnonzero(inside & changing):
        utc[row] = local[row] - _offset(int(local[row]), place, 0)
    return utc


def _offset_of_day(day: int, zone: ZoneInfo) -> int | None:
    """The UTC offset in microseconds on a local day, counted from 1970; None if it changes during the day."""
    offsets = {_offset((day + end) * _DAY_US, zone, fold) for end in (0, 1) for fold in (0, 1)}
    return offsets.pop() if len(offsets) == 1 else None


def _offset(local: int, zone: ZoneInfo, fold: int) -> int:
    moment = from_micros(local).replace(tzinfo=zone, fold=fold)
    return (moment.utcoffset() or timedelta()) // timedelta(microseconds=1)
