"""Great Expectations as the oracle of the comparison of figures with thresholds."""

import os
from collections.abc import Sequence
from typing import Any

import pandas as pd

from pststream.input.expectations import Threshold


def unmet_figures(figures: list[dict[str, Any]], thresholds: Sequence[Threshold]) -> list[set[str]]:
    """Return the names of the figures of each row that Great Expectations finds beyond their thresholds.

    At least one figure is not None; a figure that is None in every row is not checked.
    """
    frame = pd.DataFrame(figures).dropna(axis="columns", how="all")
    texts = [name for name in frame if any(isinstance(row[name], str) for row in figures)]
    frame = frame.astype({name: object if name in texts else float for name in frame})
    unmet: list[set[str]] = [set() for _ in figures]
    for result in _batch_of(frame).validate(_suite_of(thresholds, frame), result_format="COMPLETE").results:
        assert "element_count" in result.result, result.exception_info
        for place in result.result.get("unexpected_index_list") or ():
            unmet[place].add(result.expectation_config.kwargs["column"])
    return unmet


def _suite_of(thresholds: Sequence[Threshold], frame: pd.DataFrame) -> Any:
    import great_expectations as gx
    from great_expectations.expectations import ExpectColumnValuesToBeBetween as Between
    from great_expectations.expectations import ExpectColumnValuesToBeNull as Null

    expectations: list[Any] = []
    for one in thresholds:
        if one.figure in frame:
            is_text = one.least is None and one.most is None
            bounds = {} if is_text else {"min_value": one.least, "max_value": one.most}
            expectations.append((Null if is_text else Between)(column=one.figure, **bounds))
    return gx.ExpectationSuite("thresholds", expectations=expectations)


def _batch_of(frame: pd.DataFrame) -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("figures").add_dataframe_asset("figures")
    return asset.add_batch_definition_whole_dataframe("figures").get_batch({"dataframe": frame})
