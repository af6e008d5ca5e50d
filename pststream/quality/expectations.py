"""Great Expectations, as this project uses it: a frame of figures, one row for each thing that is judged.

The figures are counted where the rows are (by Spark's tasks), a few numbers for each thing. Great Expectations then
sees a small pandas frame, whatever the size of the data: its own scans of a table of 4 million rows take seconds, and
hold the table. A null figure says nothing and fails nothing.

The library takes four seconds and 300 MB to load, so only this module loads it, and only when there is a figure to
judge. Its context is ephemeral: no files, no network, no usage statistics.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite

SAYS = "says"
"""Key of an expectation's meta: the sentence for people where it fails; {value} stands for the figure."""


@dataclass(frozen=True)
class Result:
    """An expectation of one figure: its name, its value, whether it was met, and the sentence if it was not."""

    name: str
    value: Any
    success: bool
    sentence: str


@dataclass(frozen=True)
class Judgement:
    """What a suite says of one row of figures: a result for each figure that there was."""

    results: tuple[Result, ...]

    @property
    def success(self) -> bool:
        """Whether every expectation was met."""
        return all(result.success for result in self.results)

    @property
    def reasons(self) -> list[str]:
        """A sentence for each expectation that was not met."""
        return [result.sentence for result in self.results if not result.success]


def judge(figures: list[dict[str, Any]], suite: Callable[[], "ExpectationSuite"]) -> list[Judgement]:
    """Judge each row of figures by the suite that `suite` makes, in one validation.

    Figures are numbers, texts or None. Each expectation is one of a column map type, and names its column.
    """
    if not any(value is not None for row in figures for value in row.values()):
        return [Judgement(()) for _ in figures]
    found = _validated(_frame(figures), suite)
    return [
        Judgement(tuple(_result(one, name, place, row[name]) for name, one in found.items() if row[name] is not None))
        for place, row in enumerate(figures)
    ]


def _frame(figures: list[dict[str, Any]]) -> "pd.DataFrame":
    """The figures as columns, without those of which there are none."""
    import pandas as pd

    frame = pd.DataFrame(figures).dropna(axis="columns", how="all")
    texts = [name for name in frame if any(isinstance(row[name], str) for row in figures)]
    return frame.astype({name: object if name in texts else float for name in frame})


def _validated(frame: "pd.DataFrame", suite: Callable[[], "ExpectationSuite"]) -> dict[str, Any]:
    """The result of the expectation of each column, with the places of the rows that do not meet it."""
    asset = _context().data_sources.add_pandas("figures").add_dataframe_asset("figures")
    batch = asset.add_batch_definition_whole_dataframe("figures").get_batch({"dataframe": frame})
    made = suite()
    made.expectations = [expectation for expectation in made.expectations if expectation.column in frame]
    results = batch.validate(made, result_format="COMPLETE").results
    found = {result.expectation_config.kwargs["column"]: result for result in results}
    for name, result in found.items():
        if "element_count" not in result.result:
            raise RuntimeError(f"the expectation of {name} could not be judged: {result.exception_info}")
    return found


def _context() -> Any:
    """A context that writes nothing, not even a temporary folder, and tells nobody."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

    stores = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
    config = DataContextConfig(
        store_backend_defaults=stores, analytics_enabled=False, progress_bars={"globally": False}
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _result(found: Any, name: str, place: int, value: Any) -> Result:
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    success = place not in (found.result.get("unexpected_index_list") or ())
    return Result(name, value, success, found.expectation_config.meta[SAYS].format(value=shown))
