"""Check figures of files or tables against thresholds, and declare those of the daily checks of a home's tables.

Tasks count the figures, a few numbers for each checked file or table. A null figure is not checked. The suites of
users, which judge the rows themselves, are run by Great Expectations (`run_suites.py`). It gives the same results for
these figures, and takes 3 s of CPU time and 255 MB to load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Threshold:
    """The range of a figure, ends included; a figure without a range is a text that reports a failure.

    sentence    the sentence to show for a figure beyond its range; {value} stands for the figure
    """

    figure: str
    sentence: str
    least: float | None = None
    most: float | None = None

    def check(self, value: Any) -> "ThresholdResult":
        """Compare a figure with the range."""
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        least, most = self.least, self.most
        within = (least is None or value >= least) and (most is None or value <= most)
        success = bool(within) and not (least is None and most is None)
        return ThresholdResult(self.figure, value, success, self.sentence.format(value=shown))


@dataclass(frozen=True)
class ThresholdResult:
    """One checked figure: its name, its value, whether it is within its threshold, and the sentence if it is not."""

    name: str
    value: Any
    success: bool
    sentence: str


@dataclass(frozen=True)
class ThresholdResults:
    """The results of one row of figures, one for each figure that is not null."""

    results: tuple[ThresholdResult, ...]

    @property
    def success(self) -> bool:
        """Whether every figure is within its threshold."""
        return all(result.success for result in self.results)

    @property
    def reasons(self) -> list[str]:
        """A sentence for each figure beyond its threshold."""
        return [result.sentence for result in self.results if not result.success]


def check_thresholds(figures: list[dict[str, Any]], thresholds: Sequence[Threshold]) -> list[ThresholdResults]:
    """Check each row of figures against the thresholds. Figures are numbers, texts or None."""
    return [
        ThresholdResults(tuple(one.check(row[one.figure]) for one in thresholds if row[one.figure] is not None))
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
}
"""The figures of each check, each with the sentence to report if it is not zero."""

UNCOUNTED = {
    "objects_off": "the number of rows of objects: a file of objects is unfinished",
    "requests_off": "the number of rows of requests: a file of requests is unfinished",
    "rejects_off": "the number of rows of rejects: a file is unfinished",
    "answers_off": "the number of rows of question_answers: a file of questions is unfinished",
    "stray": "rows of worker_index at workers without their units: a migration may have left some",
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
