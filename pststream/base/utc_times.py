"""Convert times in UTC between datetimes, microseconds since 1970 and ISO 8601 texts."""

import datetime as dt

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def utc_now() -> dt.datetime:
    """Return the current time, with zone."""
    return dt.datetime.now(dt.UTC)


def to_micros(moment: dt.datetime) -> int:
    """Return the microseconds since 1970 of a time with zone, rounded down."""
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def micros_of(moment: dt.datetime | None) -> int | None:
    """Return what `to_micros` returns; None stays."""
    return None if moment is None else to_micros(moment)


def from_micros(micros: int) -> dt.datetime:
    """Return the time of a number of microseconds since 1970."""
    return EPOCH + dt.timedelta(microseconds=micros)


def iso(moment: dt.datetime | None, timespec: str = "auto") -> str | None:
    """Return a time as ISO 8601 in UTC, by default with microseconds if there are any: 2026-01-31T12:00:00Z."""
    if moment is None:
        return None
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"
