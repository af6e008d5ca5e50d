"""Conversions of times."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from pststream.base.utc_times import from_micros, iso, to_micros


@given(st.integers(-(10**15), 10**16))
def test_microseconds_come_back(micros: int) -> None:
    moment = from_micros(micros)
    assert moment.utcoffset() == dt.timedelta(0) and to_micros(moment) == micros
    assert to_micros(moment.astimezone(dt.timezone(dt.timedelta(hours=-7)))) == micros


def test_iso() -> None:
    moment = dt.datetime(2026, 1, 31, 13, 0, 0, 250_000, dt.timezone(dt.timedelta(hours=1)))
    assert iso(moment) == "2026-01-31T12:00:00.250000Z" and iso(moment.replace(microsecond=0)) == "2026-01-31T12:00:00Z"
    assert iso(moment, "milliseconds") == "2026-01-31T12:00:00.250Z" and iso(None) is None
