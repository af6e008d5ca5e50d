"""Numbers, durations and times as text."""

import datetime as dt

import pytest

from pststream.format_values import counted, percent, seconds, short, time_ago, whole, whole_or_short


def test_numbers_read_well() -> None:
    assert [short(v) for v in (None, 0, 950, 12_300, 4.56e6)] == ["–", "0", "950", "12.3\u202fk", "4.56\u202fM"]
    assert [short(v) for v in (999.7, 999_700)] == ["1\u202fk", "1\u202fM"]
    assert [seconds(v) for v in (0.5, 12.34, 130, 7_260)] == [
        "0.50\u202fs",
        "12.3\u202fs",
        "2\u202fmin 10\u202fs",
        "2\u202fh 01\u202fmin",
    ]
    assert whole(1234567) == "1,234,567" and percent(0.1234) == "12.3\u202f%"
    assert counted(1, "match", "matches") == "1 match" and counted(2, "leaf", "leaves") == "2 leaves"
    assert whole_or_short(9_999_999) == "9,999,999" and whole_or_short(12_345_678) == "12.3\u202fM"


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
