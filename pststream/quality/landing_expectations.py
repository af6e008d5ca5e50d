"""The gate on landing: what is expected of a file before its rows are taken into the log.

The rules for a row (quality/parse_objects.py, quality/parse_requests.py) are one list that gives both the accepted
and the
rejected rows. A gate looks at the file as a whole, by what that list has counted: a file of which most rows lack a
coordinate is a wrong export, and its good rows would be matched as if the others had never been meant to come.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pststream.settings import Settings

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

FIELDS = {
    "objects": ("object_id", "ts", "lon", "lat", "text"),
    "requests": ("op", "subscription_id", "keywords", "bbox", "circle", "created_at", "expires_at", "at"),
}
"""The fields at fault that rejected rows name; the empty name is the row as a whole."""

RECENT = 100
"""So many of the last files say what is usual."""

Faults = Mapping[tuple[str, str], int]
"""Rejected rows by field and reason (quality/reject_reasons.py)."""

Figures = dict[str, float | str | None]


@dataclass(frozen=True)
class Landed:
    """A file as it was read: why it cannot be, or its rows, those rejected, and its greatest time in microseconds."""

    rows: int
    faults: Faults
    greatest: int | None
    problem: str | None = None


@dataclass(frozen=True)
class Past:
    """What a file is compared with: the rows of the last files of its kind, the clock, the log's greatest time.

    Times are microseconds; None where there is none.
    """

    rows: Sequence[int]
    now: int
    watermark: int | None


def figures(kind: str, landed: Landed, past: Past, settings: Settings) -> Figures:
    """The figures that `landing_suite` judges; None for what there is too little to judge by."""
    found: Figures = {"schema": landed.problem, "unreadable": None, "volume": None, "ahead": None, "stale": None}
    found |= {f"{how}_{field}": None for field in FIELDS[kind] for how in ("missing", "invalid")}
    if landed.problem is not None:
        return found
    if landed.rows >= settings.gate_min_rows:
        found |= _shares(kind, landed)
    if len(past.rows) >= settings.gate_history:
        found["volume"] = _volume(landed.rows, past, settings)
    if kind == "objects" and landed.greatest is not None:
        found["stale"] = (past.now - landed.greatest) / 1e6 if settings.gate_stale_seconds else None
        if len(past.rows) >= settings.gate_history and settings.gate_ahead_seconds:
            found["ahead"] = (landed.greatest - max(past.now, past.watermark or past.now)) / 1e6
    return found


def _shares(kind: str, landed: Landed) -> Figures:
    """Of all rows, those rejected for a field that is missing, for one that holds no value of it, or as a whole."""
    counts: dict[str, float] = {f"{how}_{field}": 0.0 for field in FIELDS[kind] for how in ("missing", "invalid")}
    counts["unreadable"] = 0.0
    for (field, reason), rows in landed.faults.items():
        name = f"{'missing' if reason == 'missing' else 'invalid'}_{field}" if field in FIELDS[kind] else "unreadable"
        counts[name] += rows / landed.rows
    return dict(counts)


def _volume(rows: int, past: Past, settings: Settings) -> float | None:
    """Rows over what is usual; None where that is too few to say."""
    usual = median(past.rows[-RECENT:])
    return rows / usual if settings.gate_volume_factor and usual >= settings.gate_min_rows else None


def landing_suite(kind: str, settings: Settings) -> Callable[[], "ExpectationSuite"]:
    """The suite for files of `kind`, made when it is called: schema, null rates, ranges, volume, freshness."""

    def make() -> "ExpectationSuite":
        import great_expectations as gx
        from great_expectations.expectations import ExpectColumnValuesToBeBetween as Between
        from great_expectations.expectations import ExpectColumnValuesToBeNull as Null

        share, factor = settings.gate_bad_share, settings.gate_volume_factor
        made = [Null(column="schema", meta={"says": "{value}"})]
        for field in FIELDS[kind]:
            lack = f"{{value}} of the rows lack {field}; at most {share:g} may"
            wrong = f"{{value}} of the rows have a {field} that is none; at most {share:g} may"
            made.append(Between(column=f"missing_{field}", max_value=share, meta={"says": lack}))
            made.append(Between(column=f"invalid_{field}", max_value=share, meta={"says": wrong}))
        text = f"{{value}} of the rows cannot be read; at most {share:g} may"
        made.append(Between(column="unreadable", max_value=share, meta={"says": text}))
        text = f"it has {{value}} times as many rows as is usual; 1/{factor:g} to {factor:g} times is expected"
        least, most = (1 / factor, factor) if factor else (None, float("inf"))
        made.append(Between(column="volume", min_value=least, max_value=most, meta={"says": text}))
        text = f"its greatest ts is {{value}} s ahead; at most {settings.gate_ahead_seconds} s may be"
        made.append(Between(column="ahead", max_value=settings.gate_ahead_seconds, meta={"says": text}))
        text = f"its greatest ts is {{value}} s old; at most {settings.gate_stale_seconds} s may be"
        made.append(Between(column="stale", max_value=settings.gate_stale_seconds, meta={"says": text}))
        return gx.ExpectationSuite(f"{kind} on landing", expectations=made)

    return make
