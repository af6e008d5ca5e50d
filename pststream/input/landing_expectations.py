"""Compute the figures of one landed file (bad shares, volume, times), and declare the landing gate's thresholds.

Row rules (input/parse_objects.py, input/parse_requests.py) accept or reject single rows. The landing gate checks a
file as a whole, by the counts of these rules, before its rows are appended: a file in which most rows lack a coordinate
is a broken export, and its few good rows should not be matched as if they were complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pststream.input.expectations import Threshold
from pststream.input.parse_objects import OBJECT_FIELDS
from pststream.queries.kinds.registry import KINDS
from pststream.settings import Settings

RECENT_FILES = 100
"""Number of previous files that the usual volume is computed from."""

FaultCounts = Mapping[tuple[str, str], int]
"""Rejected rows by field and reason (input/row_chunks.py)."""

Figures = dict[str, float | str | None]


@dataclass(frozen=True)
class LandedFile:
    """A file that was read: rows, rejects, greatest time in microseconds; or the problem if it cannot be read."""

    rows: int
    faults: FaultCounts
    greatest: int | None
    problem: str | None = None


@dataclass(frozen=True)
class LandingHistory:
    """Values that a file is compared with: rows of each of the last files of its kind, current time (microseconds)."""

    rows: Sequence[int]
    now: int


def fields_of(kind: str) -> tuple[str, ...]:
    """Return the fields that rejects of `objects` or `requests` may name; a reject of a whole row names no field."""
    if kind == "objects":
        return OBJECT_FIELDS
    queries = {field: None for query_kind in KINDS.values() for field in sorted(query_kind.fields)}
    return ("op", "subscription_id", "kind", *queries, "created_at", "expires_at", "at")


def compute_figures(kind: str, landed: LandedFile, past: LandingHistory, settings: Settings) -> Figures:
    """Compute the figures that `landing_thresholds` has thresholds for; None where there is too little data."""
    figures: Figures = {"schema": landed.problem, "unreadable": None, "volume": None, "stale": None}
    figures |= {f"{how}_{field}": None for field in fields_of(kind) for how in ("missing", "invalid")}
    if landed.problem is not None:
        return figures
    if landed.rows >= settings.gate_min_rows:
        figures |= _shares(kind, landed)
    if len(past.rows) >= settings.gate_history:
        figures["volume"] = _volume(landed.rows, past, settings)
    if kind == "objects" and landed.greatest is not None:
        figures["stale"] = (past.now - landed.greatest) / 1e6 if settings.gate_stale_seconds else None
    return figures


def _shares(kind: str, landed: LandedFile) -> Figures:
    """Return the shares of all rows that are rejected for a missing field, for an invalid field, or as a whole."""
    fields = fields_of(kind)
    counts: dict[str, float] = {f"{how}_{field}": 0.0 for field in fields_of(kind) for how in ("missing", "invalid")}
    counts["unreadable"] = 0.0
    for (field, reason), rows in landed.faults.items():
        name = f"{'missing' if reason == 'missing' else 'invalid'}_{field}" if field in fields else "unreadable"
        counts[name] += rows / landed.rows
    return dict(counts)


def _volume(rows: int, past: LandingHistory, settings: Settings) -> float | None:
    """Return the rows divided by the median of the last files; None if the median is too small."""
    usual = median(past.rows[-RECENT_FILES:])
    return rows / usual if settings.gate_volume_factor and usual >= settings.gate_min_rows else None


def landing_thresholds(kind: str, settings: Settings) -> list[Threshold]:
    """Return the thresholds for files of `kind`: schema, missing or invalid fields, volume, times."""
    share, factor = settings.gate_bad_share, settings.gate_volume_factor
    thresholds = [Threshold("schema", "{value}")]
    for field in fields_of(kind):
        lack = f"{{value}} of the rows have no {field}; at most {share:g} may"
        wrong = f"{{value}} of the rows have an invalid {field}; at most {share:g} may"
        thresholds += [
            Threshold(f"missing_{field}", lack, most=share), Threshold(f"invalid_{field}", wrong, most=share)
        ]  # fmt: skip
    text = f"{{value}} of the rows cannot be read; at most {share:g} may"
    thresholds.append(Threshold("unreadable", text, most=share))
    text = f"it has {{value}} times the usual number of rows; 1/{factor:g} to {factor:g} times is expected"
    least, most = (1 / factor, factor) if factor else (None, float("inf"))
    thresholds.append(Threshold("volume", text, least, most))
    text = f"its greatest ts is {{value}} s old; at most {settings.gate_stale_seconds} s may be"
    thresholds.append(Threshold("stale", text, most=settings.gate_stale_seconds))
    return thresholds
