"""Times against datetime, in every form, column type and zone; raw values as texts and numbers."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pststream.base.errors import SettingError
from pststream.input.parse_times import (
    AMBIGUOUS_US,
    EARLIEST_US,
    LAST_US,
    OUT_OF_RANGE_US,
    TIME_UNITS,
    parse_time,
    parse_times,
    time_fault,
)
from pststream.input.raw_values import is_blank, is_plain, to_numbers, to_texts
from pststream.settings import check_zone
from tests.fuzz.cases import examples
from tests.oracles import rows as slow

ZONES = st.one_of(
    st.none(), st.just(UTC), st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
)
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES)
FORMS = st.sampled_from(
    [
        lambda t: t.isoformat(),
        lambda t: t.isoformat(" ", "seconds"),
        lambda t: t.isoformat(timespec="minutes"),
        lambda t: t.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        lambda t: t.strftime("%Y%m%dT%H%M%S").zfill(15),
        lambda t: f"  {t.isoformat()}9 ",
        lambda t: t.date().isoformat(),
        lambda t: str(int(t.microsecond) - 500_000),
        lambda t: str(us(t.replace(tzinfo=UTC)) // 1000),
        lambda t: f"{us(t.replace(tzinfo=UTC)) // 1000}.0",
        lambda t: str(us(t.replace(tzinfo=UTC)) / 10**6),
        lambda t: repr(us(t.replace(tzinfo=UTC)) / 10**6 * 1e-4),
        lambda t: t.strftime("%Y%m%d").zfill(8),
        lambda t: t.strftime("%Y%m%d%H%M").zfill(12),
        lambda t: t.strftime("%Y%m%d%H%M%S").zfill(14),
        lambda t: t.strftime("%Y"),
    ]
)


def us(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(
    st.lists(st.one_of(st.tuples(MOMENTS, FORMS).map(lambda made: made[1](made[0])), st.text(max_size=9)), max_size=5),
    st.sampled_from([None, *TIME_UNITS]),
)
@examples(500)
def test_texts_are_read_as_the_twin_reads_them(texts: list[str], unit: str | None) -> None:
    expected = [_seen(slow.time_us(text, unit)) for text in texts]
    times, read = parse_times(pa.array(texts, pa.string()), "UTC", unit)
    assert [_seen(int(t)) if r else None for t, r in zip(times, read)] == expected
    assert [_seen(parse_time(text, "UTC", unit)) for text in texts] == expected


def _seen(time: int | None) -> int | str | None:
    """A time; of the far ones, whether they are before or after those that can be written."""
    if time in (AMBIGUOUS_US, slow.AMBIGUOUS):
        return "ambiguous"
    return time if time is None or abs(time) <= LAST_US else math.copysign(math.inf, time)


@given(st.datetimes(datetime(1920, 1, 1), datetime(2199, 1, 1)), st.sampled_from(["America/Chicago", "Asia/Kolkata"]))
@examples(200)
def test_a_time_without_zone_is_local(moment: datetime, zone: str) -> None:
    expected = us(moment.replace(tzinfo=ZoneInfo(zone)))
    times, _ = parse_times(pa.array([moment.isoformat()]), zone)
    assert times[0] == parse_time(moment, zone) == expected


def test_clocks_set_forward_and_back() -> None:
    around = [f"2021-{day}T{hour:02}:30:00" for day in ("03-28", "10-31") for hour in range(24)]
    for zone in ("Europe/Paris", "America/Sao_Paulo"):
        times, _ = parse_times(pa.array(around), zone)
        assert times.tolist() == [us(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))) for text in around]
    times, _ = parse_times(pa.array(["2021-10-31T02:30:00"]), "Europe/Paris")
    assert times[0] == us(datetime(2021, 10, 31, 0, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        "", "yesterday", "2021-02-29", "2021-13-01", "2021-00-01", "2021-01-32", "2021-01-01T24:01", "2021-01-01T10:60",
        "2021-01-01T10:00:61", "2021-01-01T10:00+", "2021-01-01T10:00+5", "2021-01-01T10:00+24:00", "2021-01-01T",
        "2021/01/01", "01.01.2021", "1767254400000.5", "1e3", "NaN", "-", "２０２１", "2021", "2021-01", "2021-W03",
        "2021-01-01T24:00:01", "2021-01-01T24:00:00.01Z", "2016-12-31T12:30:60Z", "2016-12-31T23:59:61Z",
        "2016-12-31T22:59:60-02:00", "2021-01-13T00:00Z/2021-01-16T00:00Z", "2021-013", "12021-01-01",
    ],
)  # fmt: skip
def test_texts_that_are_no_times(text: str) -> None:
    assert not parse_times(pa.array([text]), "UTC")[1][0]
    assert parse_time(text) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1_700_000_000_000, None, -1]), [1_700_000_000_000_000, None, AMBIGUOUS_US]),
        (pa.array([5], pa.int8()), [AMBIGUOUS_US]),
        (pa.array([2**64 - 1], pa.uint64()), [OUT_OF_RANGE_US]),
        (pa.array([1e12, 1e12 + 0.5, 1.5, float("nan"), None]), [10**15, None, AMBIGUOUS_US, None, None]),
        (pa.array([2.0260113e7, 2026.0, 1e300]), [us(datetime(2026, 1, 13, tzinfo=UTC)), None, OUT_OF_RANGE_US]),
        (pa.array([date(1970, 1, 2), None]), [86_400_000_000, None]),
        (pa.array([1, None], pa.timestamp("s")), [1_000_000, None]),
        (pa.array([1999], pa.timestamp("ns")), [1]),
        (pa.array([7], pa.timestamp("ms", "America/Chicago")), [7000]),
        (pa.array([True]), [None]),
        (pa.array([None], pa.null()), [None]),
        (pa.array([], pa.string()), []),
    ],
)
def test_columns_of_other_types(values: pa.Array, expected: list[int | None]) -> None:
    times, read = parse_times(values, "UTC")
    assert [int(t) if r else None for t, r in zip(times, read)] == expected


def test_timestamps_that_microseconds_cannot_hold_are_far_out() -> None:
    for values in (pa.array([2**60, -(2**60)], pa.timestamp("s")), pa.array([2**31 - 1, -(2**31)], pa.date32())):
        times, read = parse_times(values, "UTC")
        assert read.all() and times[0] > LAST_US and times[1] < -LAST_US


def test_a_column_of_local_timestamps() -> None:
    times, _ = parse_times(pa.array([datetime(2021, 7, 1, 12)], pa.timestamp("ns")), "America/Chicago")
    assert times[0] == us(datetime(2021, 7, 1, 17, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5000), (5.0, 5000), (5.5, None), (True, None), (None, None), ([1], None),
        (10**30, OUT_OF_RANGE_US), (-(10**30), -OUT_OF_RANGE_US), (float("inf"), None),
        ("9" * 30, OUT_OF_RANGE_US), ("-" + "9" * 30, -OUT_OF_RANGE_US), ("+5", 5000), (20260113, 20_260_113_000),
        (date(1970, 1, 2), 86_400_000_000),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        ("9999-12-31T23:59:59.999999Z", LAST_US),
    ],
)  # fmt: skip
def test_single_values(value: Any, expected: int | None) -> None:
    assert parse_time(value, unit="ms") == expected


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("1767254400", "ambiguous_time"), ("1767254400.123", "ambiguous_time"), ("-1", "ambiguous_time"),
        ("0", "ambiguous_time"), ("94694399999", "ambiguous_time"), ("94694400000", None), ("1767254400000", None),
        ("1e12", None), ("45658", "ambiguous_time"), ("45658.3333", "ambiguous_time"), ("2026", "unreadable_time"),
        ("202601", "ambiguous_time"), ("20260113", None), ("20260229", "ambiguous_time"),
        ("10660101", "time_out_of_range"), ("202601130900", "ambiguous_time"), ("197613130900", None),
        ("20260113090000", "ambiguous_time"), ("99991231235959", "ambiguous_time"),
        ("1767254400123456", "time_out_of_range"), ("1767254400123456789", "time_out_of_range"),
    ],
)  # fmt: skip
def test_numbers_without_a_unit_are_milliseconds_only_if_nothing_speaks_against_it(
    written: str, fault: str | None
) -> None:
    number = float(written)
    columns = [[written], ["2026-01-01", written], [number], [int(number)] if number.is_integer() else [number]]
    for column in columns:
        times, read = parse_times(pa.array(column), "UTC")
        assert time_fault(int(times[-1]) if read[-1] else None) == time_fault(parse_time(column[-1])) == fault


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2025-12-31T24:00:00Z", "2026-01-01T00:00:00Z"), ("2025-12-31 24:00", "2026-01-01"),
        ("20251231T2400+0200", "2025-12-31T22:00:00Z"), ("2025-12-31T24:00:00.000-08:00", "2026-01-01T08:00:00Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999Z"), ("20161231T235960Z", "2016-12-31T23:59:59.999999Z"),
        ("2016-12-31T23:59:60.25Z", "2016-12-31T23:59:59.999999Z"),
        ("2017-01-01T05:29:60+05:30", "2016-12-31T23:59:59.999999Z"),
        ("2016-12-31 23:59:60", "2016-12-31T23:59:59.999999"), ("20260113", "2026-01-13"),
        ("2026-01-13t09:00:00z", "2026-01-13T09:00:00Z"), ("20260113T0900Z", "2026-01-13T09:00:00Z"),
        ("2026-W03-2", "2026-01-13"),
    ],
)  # fmt: skip
def test_rare_forms_of_texts(text: str, same: str) -> None:
    for zone in ("UTC", "America/Chicago"):
        expected = parse_times(pa.array([same]), zone)[0].tolist()
        for beside in ("2026-01-13T09:00:00Z", "x"):
            times, read = parse_times(pa.array([beside, text]), zone)
            assert read[1] and times[1:].tolist() == [parse_time(text, zone)] == expected


def test_seconds_with_a_fraction_are_rounded_to_microseconds() -> None:
    expected = us(datetime(2026, 1, 1, 8, 0, 0, 123_457, tzinfo=UTC))
    for written in ("1767254400.123457", 1767254400.1234567):
        times, read = parse_times(pa.array([written]), "UTC", "s")
        assert read[0] and times[0] == parse_time(written, unit="s") == expected


def test_the_year_0_is_a_time_that_is_far_out() -> None:
    for text in ("0000-01-01", "0000-02-29T00:00:00Z", "0000-W01-1"):
        times, read = parse_times(pa.array([text]), "UTC")
        assert read[0] and times[0] < EARLIEST_US
        assert (parse_time(text) or 0) < EARLIEST_US
    assert parse_time("0000-13-01") is None


def test_zones_are_checked() -> None:
    assert check_zone("Europe/Stockholm")
    for name in ("Mars/Phobos", "", "../etc/passwd", "\0"):
        with pytest.raises(SettingError, match="not a known zone"):
            check_zone(name)


NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(10**20), 10**20).map(str))


@given(st.lists(st.one_of(NUMBERS, st.text("0123456789.eE+- ", max_size=6)), max_size=6))
@examples(400)
def test_numbers_are_those_of_float(texts: list[str]) -> None:
    numbers = to_numbers(pa.array(texts, pa.string()))
    for text, number in zip(texts, numbers):
        try:
            expected = float(text)
        except ValueError:
            expected = math.nan
        assert number == expected or (math.isnan(number) and math.isnan(expected))


@pytest.mark.parametrize("text", ["", " ", "x", "1,5", "1_000", "0x1p3", "１２", "NaN", "--1", "1e", "true"])
def test_texts_that_are_no_numbers(text: str) -> None:
    assert math.isnan(to_numbers(pa.array([text, "1"]))[0])


@pytest.mark.parametrize(("text", "number"), [(" 1.5\t", 1.5), ("+1", 1.0), (".5", 0.5), ("1.", 1.0), ("-1E-2", -0.01)])
def test_texts_that_are_numbers(text: str, number: float) -> None:
    assert to_numbers(pa.array([text, "x"]))[0] == number


@pytest.mark.parametrize(
    ("values", "numbers", "texts"),
    [
        (pa.array([1, None]), [1.0, math.nan], ["1", None]),
        (pa.array([1.0, 2.5, None]), [1.0, 2.5, math.nan], ["1", "2.5", None]),
        (pa.array([Decimal("1.50")]), [1.5], ["1.50"]),
        (pa.array([None], pa.null()), [math.nan], [None]),
        (pa.array(["x", None]), [math.nan, math.nan], ["x", None]),
    ],
)
def test_columns_as_numbers_and_texts(values: pa.Array, numbers: list[float], texts: list[str | None]) -> None:
    np.testing.assert_array_equal(to_numbers(values), numbers)
    assert to_texts(values).to_pylist() == texts
    assert is_plain(values.type)


@pytest.mark.parametrize("values", [pa.array([True]), pa.array([[1]]), pa.array([{"a": 1}]), pa.array([b"x"])])
def test_values_that_are_neither(values: Any) -> None:
    assert not is_plain(values.type)
    assert np.isnan(to_numbers(values)).all()


def test_blank_values() -> None:
    assert is_blank(pa.array(["", " \t", None, "x", "0"])).tolist() == [True, True, True, False, False]
    assert is_blank(pa.array([None, 0])).tolist() == [True, False]


def test_nan_and_infinities_are_no_texts() -> None:
    assert to_texts(pa.array([1.0, math.nan, math.inf, -math.inf, None])).to_pylist() == ["1", None, None, None, None]
