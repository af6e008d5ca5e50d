"""Check figures of files or tables against thresholds; return a sentence for each failure.

Tasks count the figures, a few numbers for each checked file or table. Great Expectations, if it is installed (extra
`quality`), sees a small pandas frame with one row for each table, whatever the size of the data: its own scan of a
table of 4 million rows takes seconds and holds the table in memory. Without it, and in the landing gate, the figures
are compared here, with the same results. A null figure is not checked.

The library takes four seconds and 300 MB to load. Only this module loads it, and only when there is a figure to check.
Its context is ephemeral: no files, no network, no usage statistics.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite

_SENTENCE = "sentence"
"""Key of an expectation's meta."""


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
    if not any(value is not None for row in figures for value in row.values()):
        return [ThresholdResults(()) for _ in figures]
    check = check_by_great_expectations if find_spec("great_expectations") else check_by_comparison
    return check(figures, thresholds)


def check_by_comparison(figures: list[dict[str, Any]], thresholds: Sequence[Threshold]) -> list[ThresholdResults]:
    """Compare each figure with its threshold."""
    return [
        ThresholdResults(
            tuple(
                _result(threshold, row[threshold.figure], threshold.allows(row[threshold.figure]))
                for threshold in thresholds
                if row[threshold.figure] is not None
            )
        )
        for row in figures
    ]


def check_by_great_expectations(
    figures: list[dict[str, Any]], thresholds: Sequence[Threshold]
) -> list[ThresholdResults]:
    """Check each figure in one validation by Great Expectations; at least one figure is not None."""
    frame = _frame(figures)
    checked = [threshold for threshold in thresholds if threshold.figure in frame]
    unexpected = _validate(frame, _suite(checked))
    return [
        ThresholdResults(
            tuple(
                _result(threshold, row[threshold.figure], place not in unexpected[threshold.figure])
                for threshold in checked
                if row[threshold.figure] is not None
            )
        )
        for place, row in enumerate(figures)
    ]


def _result(threshold: Threshold, value: Any, success: bool) -> ThresholdResult:
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return ThresholdResult(threshold.figure, value, success, threshold.sentence.format(value=shown))


def _frame(figures: list[dict[str, Any]]) -> "pd.DataFrame":
    """Return the figures as columns, without columns that are null in every row."""
    import pandas as pd

    frame = pd.DataFrame(figures).dropna(axis="columns", how="all")
    texts = [name for name in frame if any(isinstance(row[name], str) for row in figures)]
    return frame.astype({name: object if name in texts else float for name in frame})


def _suite(thresholds: Sequence[Threshold]) -> "ExpectationSuite":
    """Return a suite with an expectation for each threshold; each is a column map expectation."""
    import great_expectations as gx
    from great_expectations.expectations import ExpectColumnValuesToBeBetween as Between
    from great_expectations.expectations import ExpectColumnValuesToBeNull as Null

    expectations: list[Any] = []
    for one in thresholds:
        meta = {_SENTENCE: one.sentence}
        if one.least is None and one.most is None:
            expectations.append(Null(column=one.figure, meta=meta))
        else:
            expectations.append(Between(column=one.figure, min_value=one.least, max_value=one.most, meta=meta))
    return gx.ExpectationSuite("thresholds", expectations=expectations)


def _validate(frame: "pd.DataFrame", suite: "ExpectationSuite") -> dict[str, set[int]]:
    """Return, for each column, the numbers of the rows that do not meet its expectation."""
    asset = _context().data_sources.add_pandas("figures").add_dataframe_asset("figures")
    batch = asset.add_batch_definition_whole_dataframe("figures").get_batch({"dataframe": frame})
    unexpected = {}
    for result in batch.validate(suite, result_format="COMPLETE").results:
        name = result.expectation_config.kwargs["column"]
        if "element_count" not in result.result:
            raise RuntimeError(f"the expectation of {name} could not be checked: {result.exception_info}")
        unexpected[name] = set(result.result.get("unexpected_index_list") or ())
    return unexpected


def _context() -> Any:
    """Make a context that writes nothing, not even a temporary folder, and sends nothing."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

    stores = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
    config = DataContextConfig(
        store_backend_defaults=stores, analytics_enabled=False, progress_bars={"globally": False}
    )
    return gx.get_context(mode="ephemeral", project_config=config)
