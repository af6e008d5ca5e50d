"""Parse times in input rows (ISO 8601, numbers, dates, timestamps) to microseconds since 1970 in UTC.

A cast of Arrow reads a column of ISO texts fast, but fails for the whole column on one bad text, and takes either texts
with a zone or texts without. So a cast is tried on the column; if it fails, patterns select the texts of each form.
All other texts go one by one to `datetime.fromisoformat`, which decides. What cannot be read is None, or False in the
mask; what lies outside of int64 is ±OUT_OF_RANGE_US, a number of unclear meaning AMBIGUOUS_US; `time_fault` names them.

Numbers are milliseconds, or of the unit that is named. Without one, four digits are no time, and eight digits are a day
if the calendar has it. A number is ambiguous if it lies before 1973 in milliseconds, as most numbers of seconds do, or
if its 12 or 14 digits spell a day and a time.
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

AMBIGUOUS_US = -(2**61)
"""Stands for a number that may be no milliseconds, though no unit is named; it is out of range too."""

TIME_UNITS = {"ms": 1_000, "s": 1_000_000}
"""Units of numbers, in microseconds."""

_CLEAR_MS = int(datetime(1973, 1, 1, tzinfo=UTC).timestamp()) * 1000
_USUAL_MS = (10**12, 10**13)
"""Milliseconds of 13 digits, which are those from 2001 to 2286."""

_DAY_US = 86_400_000_000

_MONTH_AND_DAY = (
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_MINUTES = "([01][0-9]|2[0-3]):[0-5][0-9]"
_SECONDS = f"{_MINUTES}:[0-5][0-9]"
_CLOCK = f"({_MINUTES}|{_SECONDS}([.][0-9]{{1,6}})?)"
_ZONE = "(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_FORMS = (
    ("^-?[0-9]{1,15}([.][0-9]{1,9})?$", pa.float64()),
    (f"^[0-9]{{4}}-{_MONTH_AND_DAY}[T ]{_CLOCK}{_ZONE}$", pa.timestamp("us", "UTC")),
    (f"^[0-9]{{4}}-{_MONTH_AND_DAY}([T ]{_CLOCK})?$", pa.timestamp("us")),
    (f"^(19|20|21)[0-9]{{2}}-{_MONTH_AND_DAY}[T ]{_SECONDS}[.][0-9]{{7,9}}{_ZONE}$", pa.timestamp("ns", "UTC")),
    (f"^(19|20|21)[0-9]{{2}}-{_MONTH_AND_DAY}[T ]{_SECONDS}[.][0-9]{{7,9}}$", pa.timestamp("ns")),
)
"""Patterns of texts that a cast to the type reads without fault: numbers, and times in microseconds, with a zone and
without, then in nanoseconds. They leave out 29 February, which is not in each year."""

_NUMBER = re.compile("[+-]?[0-9]{1,400}([.][0-9]{0,400})?([eE][+-]?[0-9]{1,9})?")
_WEEK_ALONE = re.compile("[0-9]{4}-?W[0-9]{2}(?!-?[1-7])")
_TAIL = "((?:[ Z+-].*)?)"
_MIDNIGHT = re.compile(f"([0-9W-]{{7,10}}[Tt ])24((?::?00){{0,2}}(?:[.,]0+)?){_TAIL}")
_LEAP_SECOND = re.compile(f"([0-9W-]{{7,10}}[Tt ])([0-9]{{2}}:?[0-9]{{2}})(:?)60(?:[.,][0-9]+)?{_TAIL}")


def time_fault(time: int | None, latest: int = LATEST_US) -> str | None:
    """Return the reason for which a parsed time is rejected; None if it is one from EARLIEST_US to before `latest`."""
    if time is None:
        return "unreadable_time"
    if time == AMBIGUOUS_US:
        return "ambiguous_time"
    return None if EARLIEST_US <= time < latest else "time_out_of_range"


def parse_time(value: Any, zone: str = "UTC", unit: str | None = None) -> int | None:
    """Parse one value: text, number, datetime or date. Returns microseconds since 1970, or None.

    `unit` is that of numbers, of TIME_UNITS, None if nobody named it; only seconds may have a fraction, which is read
    as the nearest float64 and rounded to microseconds. A time without a zone is local to `zone`. A local time that
    occurs twice, when clocks are set back, is the earlier one; a local time that is skipped, when clocks are set
    forward, has the offset before the change (as in `zoneinfo` with fold 0).
    """
    if isinstance(value, str):
        return _parse_text(value.strip(), zone, unit)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            naive = to_micros(value.replace(tzinfo=UTC))
            return int(_localized(np.array([naive]), zone)[0])
        return to_micros(value)
    if isinstance(value, date):
        return parse_time(datetime(value.year, value.month, value.day), zone)
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = value if isinstance(value, float) else float(max(-OUT_OF_RANGE_US, min(value, OUT_OF_RANGE_US)))
        times, read = _of_numbers(np.array([number]), zone, unit)
        return int(times[0]) if read[0] else None
    return None


def parse_times(values: pa.Array, zone: str, unit: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Parse a column as `parse_time` does: microseconds since 1970, int64[n], and whether each was read, bool[n].

    `values` is string, timestamp of any unit with or without zone, date, integer or float.
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(values, zone, unit)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _of_timestamps(values, zone)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        floats = pc.fill_null(pc.cast(values, pa.float64(), safe=False), np.nan)
        return _of_numbers(floats.to_numpy(zero_copy_only=False), zone, unit)
    return np.zeros(len(values), np.int64), np.zeros(len(values), bool)


def _parse_text(text: str, zone: str, unit: str | None) -> int | None:
    if _NUMBER.fullmatch(text):
        return parse_time(float(text), zone, unit)
    text = f"{text[:-1]}Z" if text.endswith("z") else text  # Python reads only Z
    try:
        if match := _MIDNIGHT.fullmatch(text):
            day, rest, tail = match.groups()
            return parse_time(datetime.fromisoformat(f"{day}00{rest}{tail}") + timedelta(days=1), zone)
        if match := _LEAP_SECOND.fullmatch(text):
            day, clock, colon, tail = match.groups()
            time = parse_time(datetime.fromisoformat(f"{day}{clock}{colon}59.999999{tail}"), zone)
            return time if clock in ("23:59", "2359") or (time or 0) % _DAY_US == _DAY_US - 1 else None
        return None if _WEEK_ALONE.match(text) else parse_time(datetime.fromisoformat(text), zone)
    except OverflowError:
        return OUT_OF_RANGE_US
    except ValueError:
        # Python has no year 0. The year 4 has as many days, so it shows whether the text is a time.
        is_time = text.startswith("0000-") and _parse_text("0004" + text[4:], zone, unit) is not None
        return -OUT_OF_RANGE_US if is_time else None


def _of_texts(values: pa.Array, zone: str, unit: str | None) -> tuple[np.ndarray, np.ndarray]:
    # Most columns have the form of their first text throughout.
    present = values.drop_null()
    first = present[0].as_py() if len(present) else ""
    forms = sorted(_FORMS, key=lambda form: not re.match(form[0], first))
    if forms[0] is not _FORMS[0]:  # a cast to numbers would read other forms of them too
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
            if kind == pa.float64():
                parsed = parse_times(pc.cast(some.filter(fits), kind), zone, unit)
            else:
                parsed = _cast(some.filter(fits), kind, zone), np.array(True)
            times[left[chosen]], read[left[chosen]] = parsed
            left = left[~chosen]
    for row in left:
        time = parse_time(texts[int(row)].as_py(), zone, unit)
        if time is not None:
            times[row], read[row] = time, True
    return times, read


def _cast(texts: pa.Array, kind: pa.DataType, zone: str) -> np.ndarray:
    """Read texts of a form (_FORMS) as microseconds since 1970; raises pa.ArrowInvalid if one has another form."""
    numbers = _whole_numbers(pc.cast(texts, kind).cast(pa.int64()))
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


def _of_numbers(numbers: np.ndarray, zone: str, unit: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Parse numbers, float64[n], NaN for none; see `parse_times`."""
    micros = TIME_UNITS[unit or "ms"]
    is_whole = np.floor(numbers) == numbers
    read = np.isfinite(numbers) & (is_whole | (unit == "s") | ((unit is None) & (numbers < _CLEAR_MS)))
    far = ~read | (np.abs(numbers) > LAST_US // micros)
    near = np.where(far, 0, numbers)
    whole = np.floor(near)
    near = whole.astype(np.int64) * micros + np.rint((near - whole) * micros).astype(np.int64)
    times = np.where(far, np.where(numbers > 0, OUT_OF_RANGE_US, -OUT_OF_RANGE_US), near)
    unusual = np.flatnonzero(read & ((numbers < _USUAL_MS[0]) | (numbers >= _USUAL_MS[1])))
    if unit is None and len(unusual):
        clipped = np.where(is_whole, np.clip(numbers, -1, OUT_OF_RANGE_US), 0)[unusual].astype(np.int64)
        times[unusual] = _judge(clipped, times[unusual], zone)
        read[unusual] &= (clipped < 1_000) | (clipped >= 10_000)
    return times, read


def _judge(numbers: np.ndarray, times: np.ndarray, zone: str) -> np.ndarray:
    """Return the times of whole numbers, int64[n], without a unit; `times` are those of milliseconds."""
    dates, dated = _days_of(numbers)
    # Of 12 digits, which lack the seconds, only years in range spell a time: all are milliseconds of 1973 to 2001.
    digits = np.where(numbers < _USUAL_MS[0], numbers * 100, numbers)
    days, spelled = _days_of(digits // 10**6)
    spelled &= (digits // 10_000 % 100 <= 24) & (digits // 100 % 100 < 60) & (digits % 100 <= 60)
    spelled &= (numbers >= _USUAL_MS[1]) | ((days * _DAY_US >= EARLIEST_US) & (days * _DAY_US < LATEST_US))
    times = np.where(spelled | (numbers < _CLEAR_MS), AMBIGUOUS_US, times)
    times[dated] = _localized(dates[dated] * _DAY_US, zone)
    return times


def _days_of(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read numbers such as 20260113, int64[n], as days since 1970, int64[n], and whether each is a day: bool[n]."""
    year, month, day = digits // 10_000, digits // 100 % 100, digits % 100
    valid = (year >= 1000) & (year < 10_000) & (month >= 1) & (month <= 12)
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    first, after = ((months + step).astype("M8[M]").astype("M8[D]").astype(np.int64) for step in (0, 1))
    return first + day - 1, valid & (day >= 1) & (first + day <= after)


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
