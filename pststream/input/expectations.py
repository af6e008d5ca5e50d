"""Check figures of files or tables against thresholds, and declare those of the daily checks of a home's tables.

Tasks count the figures, a few numbers for each checked file or table. A null figure is not checked. The suites of
users, which judge the rows themselves, are run by Great Expectations (`run_suites.py`). It gives the same results for
these figures, and takes 3 s of CPU time and 255 MB to load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from pststream.queries.conditions import OBJECT_FIELDS
from pststream.queries.kinds.registry import KINDS
from pststream.settings import Settings


@dataclass(frozen=True)
class Threshold:
    """The range of a figure, ends included; a figure without a range is a text that reports a failure.

    sentence    the sentence to show for a figure beyond its range; {value} stands for the figure
    """

    figure: str
    sentence: str
    least: float | None = None
    most: float | None = None

    def check(self, value: Any) -> "CheckResult":
        """Compare a figure with the range."""
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        least, most = self.least, self.most
        within = (least is None or value >= least) and (most is None or value <= most)
        success = bool(within) and not (least is None and most is None)
        return CheckResult(self.figure, value, success, self.sentence.format(value=shown))


@dataclass(frozen=True)
class CheckResult:
    """The result for a figure, or for an expectation of a suite.

    value      the figure; of a suite the number of rows that do not meet the expectation, or the figure of the column;
               None if that is not a number
    success    whether it is within its threshold, or met
    sentence   for a reader, if it is not
    problem    why an expectation could not be computed
    """

    name: str
    value: Any
    success: bool
    sentence: str
    problem: str | None = None


@dataclass(frozen=True)
class CheckResults:
    """The results of one row of figures, one for each figure that is not null; or those of one suite on one frame."""

    results: tuple[CheckResult, ...]

    @property
    def success(self) -> bool:
        """Whether every result is a success."""
        return all(result.success for result in self.results)

    @property
    def reasons(self) -> list[str]:
        """A sentence for each result that is none."""
        return [result.sentence for result in self.results if not result.success]


def check_thresholds(figures: list[dict[str, Any]], thresholds: Sequence[Threshold]) -> list[CheckResults]:
    """Check each row of figures against the thresholds. Figures are numbers, texts or None."""
    return [
        CheckResults(tuple(one.check(row[one.figure]) for one in thresholds if row[one.figure] is not None))
        for row in figures
    ]


# Daily checks of tables; `pipeline/upkeep/check_tables.py` counts the figures

FIGURES: dict[str, dict[str, str]] = {
    "ledger": {
        "unfinished_batches": "{value} started batches are not done; pststream match finishes them",
        "unfinished_files": "{value} started files are not done; pststream ingest finishes them",
        "missing_batches": "{value} batch numbers are missing or occur twice",
        "batch_gaps": "{value} batches do not begin where the previous one ended",
        "missing_files": "{value} file numbers are missing or occur twice",
        "wrong_watermarks": "{value} files have a watermark that is not that of the log before them",
        "watermark_ahead": "the watermark is {value} s further ahead of the clock than max_ahead_seconds allows;"
        " pststream withdraw withdraws the objects",
        "objects_off": "objects has {value} more rows than the ledger of files",
        "requests_off": "requests has {value} more rows than the ledger of files",
        "rejects_off": "rejects has {value} more rows than the ledgers of files",
        "answers_off": "question_answers has {value} more rows than the ledger of files of questions",
        "matched_off": "batches counted {value} more objects than their key ranges contain",
        "units_off": "plan_units has {value} more units than the plans",
        "topk_plans_off": "{value} plan versions name a plan of topk that topk_plans does not have once",
        "topk_plans_broken": "{value} plans of topk have parts, words, loads or options that do not fit together",
    },
    "placement": {
        "missing": "{value} boxes of live subscriptions are missing at a worker with one of their units",
        "stray": "{value} rows of worker_index are at workers without their units; maintain drops them",
        "doubled": "{value} rows of worker_index occur twice",
        "orphans": "{value} rows of worker_index belong to no subscription in requests",
        "altered": "{value} rows of worker_index differ from their request",
        "lost_deletions": "{value} boxes were deleted, but worker_index has no deletion for them",
    },
    "matches": {
        "unknown_batches": "{value} rows of matches belong to no batch in the ledger",
        "out_of_range": "{value} pairs lie outside the key ranges of their batch",
        "pairs_off": "{value} batches have a number of pairs that differs from the ledger",
    },
    "answers": {
        "changes_off": "{value} batches have a number of changes of answers that differs from the ledger",
        "unpaired": "{value} changes enter a row that is in the answer, or remove one that is not",
        "sums_off": "{value} rows of answers are in the sum of the changes or in the state, but not in both",
        "dead": "{value} rows of answers belong to no live subscription",
        "excess": "{value} rows of answers are beyond the k of their subscription",
        "ranks_off": "{value} changes have a rank that is not theirs",
        "snapshot_off": "{value} rows of the last snapshot of the answers differ from the log before it",
    },
    "gold": {"gold_off": "gold/pairs has {value} more rows than the view; pststream pairs --rebuild makes it again"},
}
"""The figures of each check, each with the sentence to report if it is not zero."""

UNCOUNTED = {
    "objects_off": "the number of rows of objects: a file of objects is unfinished",
    "requests_off": "the number of rows of requests: a file of requests is unfinished",
    "rejects_off": "the number of rows of rejects: a file is unfinished",
    "answers_off": "the number of rows of question_answers: a file of questions is unfinished",
    "stray": "rows of worker_index at workers without their units: a migration may have left some",
    "gold_off": "the number of rows of gold/pairs: another process writes to it",
    "snapshot_off": "the last snapshot of the answers: there is none, or an earlier check has passed it",
}
"""The figures that a check may leave out, None then, each with what is not compared."""


class TableFaults(NamedTuple):
    """What a check has counted.

    figures   by name; None: not counted
    examples  some subscription keys for each figure that is not zero
    skipped   what was not compared, besides the figures that are None
    """

    figures: dict[str, int | None]
    examples: dict[str, list[int]] = {}
    skipped: tuple[str, ...] = ()

    def list_skipped(self) -> list[str]:
        """Return all that was not compared."""
        return [*(UNCOUNTED[name] for name, value in self.figures.items() if value is None), *self.skipped]


def table_thresholds(check: str) -> list[Threshold]:
    """Return the thresholds of a check: each figure is zero."""
    return [Threshold(figure, sentence, 0, 0) for figure, sentence in FIGURES[check].items()]


# Row rules (input/parse_objects.py, input/parse_requests.py) accept or reject single rows. The landing gate checks a
# file as a whole, by the counts of these rules, before its rows are appended: a file in which most rows lack a
# coordinate is a broken export, and its few good rows should not be matched as if they were complete.

RECENT_FILES = 100
"""Number of previous files of a folder that its usual volume is computed from."""

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
    """Values that a file is compared with: rows of each of the last files of its kind and folder, current time
    (microseconds).
    """

    rows: Sequence[int]
    now: int


def fields_of(kind: str) -> tuple[str, ...]:
    """Return the fields that rejects of `objects` or `requests` may name; a reject of a whole row names no field."""
    if kind == "objects":
        return OBJECT_FIELDS
    queries = {field: None for query_kind in KINDS.values() for field in sorted(query_kind.fields)}
    return ("op", "owner", "subscription_id", "kind", *queries, "created_at", "expires_at", "at")


def compute_figures(kind: str, landed: LandedFile, past: LandingHistory, settings: Settings) -> Figures:
    """Compute the figures that `landing_thresholds` has thresholds for; None where there is too little data."""
    figures: Figures = {"schema": landed.problem, "unreadable": None, "volume": None, "stale": None}
    figures |= {f"{how}_{field}": None for field in fields_of(kind) for how in ("missing", "invalid")}
    if landed.problem is not None:
        return figures
    if landed.rows >= settings.gate_min_rows:
        figures |= _shares(kind, landed)
    if len(past.rows) >= settings.gate_history and settings.gate_volume_factor:
        usual = median(past.rows[-RECENT_FILES:])
        figures["volume"] = landed.rows / usual if usual >= settings.gate_min_rows else None
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
