"""Write times as ISO 8601 in UTC."""

import datetime as dt


def iso(moment: dt.datetime | None) -> str | None:
    """A time as ISO 8601 in UTC, microseconds where there are some: 2026-01-31T12:00:00Z."""
    if moment is None:
        return None
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
