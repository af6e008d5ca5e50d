"""Format numbers, durations, times and tables as texts; escape control characters and mask secret parts of URLs."""

import datetime as dt
import ipaddress
import re
import unicodedata
from collections.abc import Sequence

_UNITS_OF_TIME = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))
THIN = "\N{NARROW NO-BREAK SPACE}"
HYPHEN = "\N{NON-BREAKING HYPHEN}"


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


def counted_matches(matches: int, changes: int) -> str:
    """Format the numbers of matches and of changes of answers, without those that are 0 if the others are not."""
    if changes and not matches:
        return counted(changes, "change of answers", "changes of answers")
    text = counted(matches, "match", "matches")
    return f"{text}, {counted(changes, 'change of answers', 'changes of answers')}" if changes else text


def duration(seconds: float | None) -> str:
    """A duration in at most two units: 0.05 s, 1.8 s, 2 min 5 s, 3 h 12 min, 2 days 5 h; a dash for None."""
    if seconds is None:
        return "–"
    if round(seconds, 1) < 60:
        return f"{round(seconds, 3):.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return _two_units(round(seconds), 60, "min", "s")
    if round(seconds / 60) < 48 * 60:
        return _two_units(round(seconds / 60), 60, "h", "min")
    return _two_units(round(seconds / 3600), 24, "days", "h")


def _two_units(number: int, size: int, unit: str, smaller: str) -> str:
    """A number of smaller units as units of `size` and the rest, if there is one."""
    whole_units, rest = divmod(number, size)
    return f"{whole_units:,} {unit}" + (f" {rest} {smaller}" if rest else "")


def byte_size(size: float | None) -> str:
    """A number of bytes in about three digits: 950 bytes, 12.3 kB, 4.56 MB, 1.2 GB; a dash for None."""
    if size is None or size < 1000:
        return "–" if size is None else counted(size, "byte")
    return short(size).replace(THIN, " ") + "B"


def whole_or_short(value: float) -> str:
    """A count in full, or in about three digits from 10 million on."""
    return whole(value) if value < 10_000_000 else short(value)


def percent(part: float) -> str:
    """A share (1 is all) in percent."""
    return f"{100 * part:.1f}{THIN}%"


def moment(value: dt.datetime | None) -> str:
    """A time in UTC, to the second; a dash for None."""
    return "–" if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(value: dt.datetime) -> str:
    """A time in UTC as a short title: month, day, hour and minute; it breaks between day and hour only."""
    return value.astimezone(dt.UTC).strftime(f"%m{HYPHEN}%d %H:%M")


def time_ago(value: dt.datetime | None, now: dt.datetime) -> str:
    """The time from `value` to `now` in one unit; a dash for None."""
    if value is None:
        return "–"
    elapsed = (now - value).total_seconds()
    unit, name = next((size, name) for size, name in _UNITS_OF_TIME if abs(elapsed) >= 2 * size or size == 1)
    return f"{abs(elapsed) / unit:,.0f} {name} {'ago' if elapsed >= 0 else 'ahead'}"


def counted(value: float, singular: str, plural: str = "") -> str:
    """A count and its noun; without `plural`, the plural ends in -es after ch, sh, s and x, and in -s otherwise."""
    ending = "es" if singular.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{whole(value)} {singular if round(value) == 1 else plural or singular + ending}"


def degrees(value: float, letters: str) -> str:
    """A latitude ("NS") or longitude ("EW")."""
    letter = letters[0] if value > 0 else letters[1] if value < 0 else ""
    return f"{abs(value):g}°{letter}"


JOINER = "\u200d"
"""Joins the parts of an emoji."""


def escape_controls(text: str) -> str:
    """Return the text on one line, with every character that is not printable and not a space as an escape.

    Control characters in user text could move the cursor, write to the clipboard or forge a line.
    """
    return "".join(
        c
        if c.isprintable() or c == JOINER or unicodedata.category(c) == "Zs"
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def is_loopback(host: str) -> bool:
    """Whether a host name or address is that of the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


MASK = "***"
"""Stands for the parts of a URL that may be secret."""
_SEPARATOR = "://"


def mask_urls(text: str) -> str:
    """Return a text with each URL in it as by `mask_url`. Takes a time linear in the text."""
    return re.sub(r"\S+", lambda word: mask_url(word[0]) if "/" in word[0] else word[0], text)


def mask_url(url: str) -> str:
    """Return a URL, or the path of one, with user, password, query and fragment as `***`; the rest of it unchanged.

    What follows the scheme is masked as a whole where the end of a password cannot be seen.
    """
    scheme, separator, rest = url.partition(_SEPARATOR)
    if not separator:
        return _without_query(url)
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    if "@" in path or _SEPARATOR in rest:
        return f"{scheme}{separator}{MASK}"
    user, _, host = authority.rpartition("@")
    return f"{scheme}{separator}{MASK + '@' if user else ''}{host}{_without_query(path)}"


def _without_query(text: str) -> str:
    mark = re.search("[?#].", text)
    return text[: mark.start() + 1] + MASK if mark else text


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with right-aligned columns; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
