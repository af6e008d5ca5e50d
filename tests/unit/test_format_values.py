"""Numbers, durations and times as text."""

import datetime as dt

import pytest

from pststream.base.texts import byte_size, counted, duration, percent, short, time_ago, whole, whole_or_short


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
