"""Parse texts with timestamps (common forms of ISO 8601, or epoch milliseconds) to microseconds since 1970."""

from typing import Any

import numpy as np

from pststream.kernels.compile import kernel

UNREAD = 0
ZONED = 1
NAIVE = 2

_DAY_US = 86_400_000_000
_DAYS_IN_MONTH = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
_MOST_DIGITS = 15


@kernel
def _digits(data: np.ndarray, position: int, stop: int, count: int) -> int:
    """Return the number of exactly `count` digits at `position`, or -1."""
    if position + count > stop:
        return -1
    number = 0
    for i in range(position, position + count):
        digit: Any = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


@kernel
def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 in the proleptic Gregorian calendar.

    Years are counted from March, so that the leap day is the last day of a year.
    """
    if month <= 2:
        year -= 1
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


@kernel
def _date(data: np.ndarray, position: int, stop: int) -> int:
    """Return the midnight of the YYYY-MM-DD at `position` in microseconds, or -1 (which no midnight equals)."""
    year = _digits(data, position, stop, 4)
    month = _digits(data, position + 5, stop, 2)
    day = _digits(data, position + 8, stop, 2)
    if year < 0 or month < 1 or month > 12 or day < 1 or day > _DAYS_IN_MONTH[month]:
        return -1
    if data[position + 4] != 45 or data[position + 7] != 45:
        return -1
    if month == 2 and day == 29 and (year % 4 != 0 or (year % 100 == 0 and year % 400 != 0)):
        return -1
    return _days(year, month, day) * _DAY_US


@kernel
def _fraction(data: np.ndarray, position: int, stop: int) -> tuple[int, int]:
    """Return the microseconds of the digits of a fraction, cut after the sixth, and the position after them."""
    number = 0
    digits = 0
    while position < stop and data[position] >= 48 and data[position] <= 57:
        if digits < 6:
            number = number * 10 + _digits(data, position, stop, 1)
        digits += 1
        position += 1
    for _ in range(digits, 6):
        number *= 10
    return (number, position) if digits > 0 else (-1, position)


@kernel
def _clock(data: np.ndarray, position: int, stop: int) -> tuple[int, int]:
    """Return the microseconds of the HH:MM[:SS[.f]] at `position`, -1 if there is none, and the position after it."""
    hour = _digits(data, position, stop, 2)
    minute = _digits(data, position + 3, stop, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or data[position + 2] != 58:
        return -1, position
    position += 5
    total = (hour * 60 + minute) * 60_000_000
    if position >= stop or data[position] != 58:
        return total, position
    second = _digits(data, position + 1, stop, 2)
    if second < 0 or second > 59:
        return -1, position
    position += 3
    total += second * 1_000_000
    if position >= stop or (data[position] != 46 and data[position] != 44):
        return total, position
    part, position = _fraction(data, position + 1, stop)
    return (total + part, position) if part >= 0 else (-1, position)


@kernel
def _zone(data: np.ndarray, position: int, stop: int) -> int:
    """Return the offset from UTC in microseconds of the rest of the text: Z, +HH, +HHMM, +HH:MM; -1 if it is none."""
    if position + 1 == stop and (data[position] == 90 or data[position] == 122):
        return 0
    if data[position] != 43 and data[position] != 45:
        return -1
    sign = 1 if data[position] == 43 else -1
    hour = _digits(data, position + 1, stop, 2)
    colon = 1 if position + 3 < stop and data[position + 3] == 58 else 0
    minute = 0 if position + 3 == stop else _digits(data, position + 3 + colon, stop, 2)
    ends = position + 3 if position + 3 == stop else position + 5 + colon
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or ends != stop:
        return -1
    return sign * (hour * 60 + minute) * 60_000_000


@kernel
def _milliseconds(data: np.ndarray, position: int, stop: int) -> tuple[int, int]:
    """Return microseconds and ZONED if data[position:stop] is a whole number of milliseconds, else 0 and UNREAD."""
    negative = data[position] == 45
    if negative:
        position += 1
    number = (
        _digits(data, position, stop, stop - position) if position < stop and stop - position <= _MOST_DIGITS else -1
    )
    if number < 0:
        return 0, UNREAD
    return (-number * 1000 if negative else number * 1000), ZONED


@kernel
def _time(data: np.ndarray, position: int, stop: int) -> tuple[int, int]:
    """Return the microseconds of data[position:stop], and ZONED (UTC), NAIVE (local) or UNREAD."""
    # A text that does not begin with a date may be epoch milliseconds.
    if position >= stop:
        return 0, UNREAD
    date = _date(data, position, stop)
    if date == -1:
        return _milliseconds(data, position, stop)
    # A date alone is its midnight.
    position += 10
    if position == stop:
        return date, NAIVE
    if data[position] != 84 and data[position] != 32 and data[position] != 116:
        return 0, UNREAD
    # The time of day follows, then perhaps an offset from UTC.
    clock, position = _clock(data, position + 1, stop)
    if clock < 0:
        return 0, UNREAD
    if position == stop:
        return date + clock, NAIVE
    east = _zone(data, position, stop)
    return (0, UNREAD) if east == -1 else (date + clock - east, ZONED)


@kernel
def _is_blank(byte: np.uint8) -> bool:
    """Return whether a byte is a space, tab, line end or page break."""
    return bool(byte == 32 or (byte >= 9 and byte <= 13))


@kernel
def read_times(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parse each text, without blanks around it: microseconds since 1970 int64[n], and their kind uint8[n].

    data     uint8[bytes]    UTF-8
    offsets  int64[n+1]      slice of `data` of each text
    ZONED is UTC: an ISO 8601 date and time with a zone, or up to 15 digits of epoch milliseconds. NAIVE is the local
    time of a zone that the text does not name; a date alone is its midnight. UNREAD is any other text.
    """
    rows = len(offsets) - 1
    times = np.zeros(rows, np.int64)
    kinds = np.zeros(rows, np.uint8)
    for row in range(rows):
        position = offsets[row]
        stop = offsets[row + 1]
        while position < stop and _is_blank(data[position]):
            position += 1
        while stop > position and _is_blank(data[stop - 1]):
            stop -= 1
        times[row], kinds[row] = _time(data, position, stop)
    return times, kinds
