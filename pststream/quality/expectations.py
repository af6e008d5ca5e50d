"""Check figures of files or tables against thresholds with Great Expectations; return a sentence for each failure.

Spark's tasks count the figures, a few numbers for each checked file or table. Great Expectations sees a small pandas
frame with one row for each file or table, whatever the size of the data: its own scan of a table of 4 million rows
takes seconds and holds the table in memory. A null figure is not checked.

The library takes four seconds and 300 MB to load. Only this module loads it, and only when there is a figure to check.
Its context is ephemeral: no files, no network, no usage statistics.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite

SENTENCE = "sentence"
"""Key of an expectation's meta: the sentence to show where it fails; {value} stands for the figure."""


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


def check_thresholds(figures: list[dict[str, Any]], suite: Callable[[], "ExpectationSuite"]) -> list[ThresholdResults]:
    """Check each row of figures against the suite that `suite` makes, in one validation.

    Figures are numbers, texts or None. Each expectation of the suite is a column map expectation.
    """
    if not any(value is not None for row in figures for value in row.values()):
        return [ThresholdResults(()) for _ in figures]
    results = _validate(_frame(figures), suite)
    return [
        ThresholdResults(
            tuple(_result(one, name, place, row[name]) for name, one in results.items() if row[name] is not None)
        )
        for place, row in enumerate(figures)
    ]


def _frame(figures: list[dict[str, Any]]) -> "pd.DataFrame":
    """Return the figures as columns, without columns that are null in every row."""
    import pandas as pd

    frame = pd.DataFrame(figures).dropna(axis="columns", how="all")
    texts = [name for name in frame if any(isinstance(row[name], str) for row in figures)]
    return frame.astype({name: object if name in texts else float for name in frame})


def _validate(frame: "pd.DataFrame", suite: Callable[[], "ExpectationSuite"]) -> dict[str, Any]:
    """Return the result of each column's expectation, with the numbers of the rows that do not meet it."""
    asset = _context().data_sources.add_pandas("figures").add_dataframe_asset("figures")
    batch = asset.add_batch_definition_whole_dataframe("figures").get_batch({"dataframe": frame})
    made = suite()
    made.expectations = [expectation for expectation in made.expectations if expectation.column in frame]
    results = batch.validate(made, result_format="COMPLETE").results
    results = {result.expectation_config.kwargs["column"]: result for result in results}
    for name, result in results.items():
        if "element_count" not in result.result:
            raise RuntimeError(f"the expectation of {name} could not be checked: {result.exception_info}")
    return results


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


def _result(validated: Any, name: str, place: int, value: Any) -> ThresholdResult:
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    success = place not in (validated.result.get("unexpected_index_list") or ())
    return ThresholdResult(name, value, success, validated.expectation_config.meta[SENTENCE].format(value=shown))
