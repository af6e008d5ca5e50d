"""Format numbers, durations and times as short texts for commands and pages."""

import datetime as dt

_UNITS_OF_TIME = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))
THIN = "\N{NARROW NO-BREAK SPACE}"


def whole(value: float | None) -> str:
    """A count with thousands separators; a dash for None."""
    return "–" if value is None else f"{round(value):,}"


def short(value: float | None) -> str:
    """About three digits: 950, 12.3 k, 4.56 M; a dash for None."""
    if value is None:
        return "–"
    value = float(f"{value:.3g}")  # 999.7 is 1 k, not 1e+03
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{THIN}{unit}"
    return f"{value:.3g}"


def seconds(value: float | None) -> str:
    """A duration in seconds; a dash for None."""
    if value is None:
        return "–"
    if value >= 3600:
        return f"{int(value // 3600)}{THIN}h {int(value % 3600 // 60):02}{THIN}min"
    if value >= 120:
        return f"{int(value // 60)}{THIN}min {int(value % 60):02}{THIN}s"
    return f"{value:.2f}{THIN}s" if value < 10 else f"{value:.1f}{THIN}s"


def whole_or_short(value: float) -> str:
    """A count in full, or in about three digits from 10 million on."""
    return whole(value) if value < 10_000_000 else short(value)


def percent(part: float) -> str:
    """A share (1 is all) in percent."""
    return f"{100 * part:.1f}{THIN}%"


def moment(value: dt.datetime | None) -> str:
    """A time in UTC, to the second; a dash for None."""
    return "–" if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def time_ago(value: dt.datetime | None, now: dt.datetime) -> str:
    """The time from `value` to `now` in one unit; a dash for None."""
    if value is None:
        return "–"
    elapsed = (now - value).total_seconds()
    unit, name = next((size, name) for size, name in _UNITS_OF_TIME if abs(elapsed) >= 2 * size or size == 1)
    return f"{abs(elapsed) / unit:,.0f} {name} {'ago' if elapsed >= 0 else 'ahead'}"


def counted(value: float, singular: str, plural: str = "") -> str:
    """A count and its noun."""
    return f"{whole(value)} {singular if round(value) == 1 else plural or singular + 's'}"


def degrees(value: float, letters: str) -> str:
    """A latitude ("NS") or longitude ("EW")."""
    letter = letters[0] if value > 0 else letters[1] if value < 0 else ""
    return f"{abs(value):g}°{letter}"
