"""Check figures of files or tables against thresholds; return a sentence for each failure.

Tasks count the figures, a few numbers for each checked file or table. A null figure is not checked. The suites of
users, which judge the rows themselves, are run by Great Expectations (`suites`). It gives the same results for these
figures, and takes 3 s of CPU time and 255 MB to load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Threshold:
    """The range of a figure, ends included; a figure without a range is a text that reports a failure.

    sentence    the sentence to show for a figure beyond its range; {value} stands for the figure
    """

    figure: str
    sentence: str
    least: float | None = None
    most: float | None = None

    def allows(self, value: Any) -> bool:
        """Whether a figure is within the range."""
        if self.least is None and self.most is None:
            return False
        return bool((self.least is None or value >= self.least) and (self.most is None or value <= self.most))


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
        ThresholdResults(
            tuple(
                _check(threshold, row[threshold.figure])
                for threshold in thresholds
                if row[threshold.figure] is not None
            )
        )
        for row in figures
    ]


def _check(threshold: Threshold, value: Any) -> ThresholdResult:
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return ThresholdResult(threshold.figure, value, threshold.allows(value), threshold.sentence.format(value=shown))
