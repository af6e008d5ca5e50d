"""Texts: URLs without secrets, numbers, durations and times."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.texts import (
    byte_size,
    counted,
    duration,
    mask_url,
    mask_urls,
    percent,
    short,
    time_ago,
    whole,
    whole_or_short,
)
from pststream.base.utc_times import from_micros, iso, to_micros

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("https://h/a/b", "https://h/a/b"),
        ("http://s3cr3t@h/", "http://***@h/"),
        ("http://user:s3cr3t@h:9000/a", "http://***@h:9000/a"),
        ("http://user:@h", "http://***@h"),
        ("http://user:s3c@r3t@h", "http://***@h"),
        ("http://[::1]:80/?token=s3cr3t", "http://[::1]:80/?***"),
        ("https://h/hook?token=s3cr3t#s3cr3t", "https://h/hook?***"),
        ("https://h#s3cr3t", "https://h#***"),
        ("https://h/?", "https://h/?"),
        ("https://h/?a=s3cr3t@s3cr3t", "https://***"),
        ("http://user:s3/cr3t@h", "http://***"),
        ("http://user:s3?cr3t@h", "http://***"),
        ("http://h,http://user:s3cr3t@h", "http://***"),
        ("/api/v1?key=s3cr3t", "/api/v1?***"),
        ("s3://key:s3cr3t@bucket/prefix", "s3://***@bucket/prefix"),
        ("", ""),
    ],
)
def test_a_url(url: str, masked: str) -> None:
    assert mask_url(url) == masked
    assert mask_urls(url) == masked


def test_urls_in_a_sentence() -> None:
    text = (
        "401 Error: (url: http://user:s3cr3t@h/a), 'https://h/x?t=s3cr3t': retries with url: /api?key=s3cr3t (why?)\n"
        "is this / that? 3/4 of http://h/path  and a@b.example"
    )
    masked = mask_urls(text)
    assert SECRET not in masked
    assert masked.endswith("is this / that? 3/4 of http://h/path  and a@b.example")
    assert "http://***@h/a)" in masked and "(why?)" in masked


def test_numbers_read_well() -> None:
    assert [short(v) for v in (None, 0, 950, 12_300, 4.56e6)] == ["–", "0", "950", "12.3\u202fk", "4.56\u202fM"]
    assert [short(v) for v in (999.7, 999_700)] == ["1\u202fk", "1\u202fM"]
    assert whole(1234567) == "1,234,567" and percent(0.1234) == "12.3\u202f%"
    assert counted(1, "match", "matches") == "1 match" and counted(2, "leaf", "leaves") == "2 leaves"
    assert whole_or_short(9_999_999) == "9,999,999" and whole_or_short(12_345_678) == "12.3\u202fM"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (0, "0 s"), (0.0004, "0 s"), (0.046, "0.046 s"), (0.5, "0.5 s"), (1.84, "1.8 s"),
        (12.34, "12.3 s"), (59.94, "59.9 s"), (59.96, "1 min"), (125, "2 min 5 s"), (3_599.6, "1 h"),
        (11_520, "3 h 12 min"),
        (172_800, "2 days"),
    ],
)  # fmt: skip
def test_a_duration_reads_well(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_a_size_reads_well() -> None:
    sizes = (None, 1, 950, 12_300, 4.56e6, 1.2e9)
    assert [byte_size(size) for size in sizes] == ["–", "1 byte", "950 bytes", "12.3 kB", "4.56 MB", "1.2 GB"]


@pytest.mark.parametrize(
    ("elapsed", "text"),
    [
        (0, "0 s ago"), (119, "119 s ago"), (120, "2 min ago"), (7_200, "2 h ago"), (172_800, "2 days ago"),
        (-300, "5 min ahead"),
    ],
)  # fmt: skip
def test_the_time_since_a_moment(elapsed: int, text: str) -> None:
    now = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    assert time_ago(now - dt.timedelta(seconds=elapsed), now) == text
    assert time_ago(None, now) == "–"


@given(st.integers(-(10**15), 10**16))
def test_microseconds_come_back(micros: int) -> None:
    moment = from_micros(micros)
    assert moment.utcoffset() == dt.timedelta(0) and to_micros(moment) == micros
    assert to_micros(moment.astimezone(dt.timezone(dt.timedelta(hours=-7)))) == micros


def test_iso() -> None:
    moment = dt.datetime(2026, 1, 31, 13, 0, 0, 250_000, dt.timezone(dt.timedelta(hours=1)))
    assert iso(moment) == "2026-01-31T12:00:00.250000Z" and iso(moment.replace(microsecond=0)) == "2026-01-31T12:00:00Z"
    assert iso(moment, "milliseconds") == "2026-01-31T12:00:00.250Z" and iso(None) is None
