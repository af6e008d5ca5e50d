"""What is expected of the tables, checked once a day: figures that are to be zero, and what it means if one is not."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

FIGURES: dict[str, dict[str, str]] = {
    "ledger": {
        "unfinished_batches": "{value} batches were started and are not done; pststream match finishes them",
        "unfinished_files": "{value} files were begun and are not done; pststream ingest finishes them",
        "missing_batches": "{value} numbers of batches are missing, or there twice",
        "batch_gaps": "{value} batches do not begin where the one before ended",
        "missing_files": "{value} numbers of files are missing, or there twice",
        "wrong_watermarks": "{value} files of objects have another watermark than the files before them give",
        "objects_off": "objects has {value} rows more than the files say",
        "requests_off": "requests has {value} rows more than the files say",
        "rejects_off": "rejects has {value} rows more than the files say",
        "matched_off": "batches have counted {value} objects more than they took",
        "units_off": "plan_units has {value} units more than the plans say",
    },
    "placement": {
        "missing": "{value} boxes of live subscriptions are not with each worker that their plan says",
        "stray": "{value} rows of worker_index are with workers that their plan does not say; maintain drops them",
        "doubled": "{value} rows of worker_index are there twice",
        "orphans": "{value} rows of worker_index are of no subscription in requests",
        "altered": "{value} rows of worker_index differ from the request that they are made from",
        "lost_deletions": "{value} boxes were deleted, and worker_index does not know it",
    },
    "matches": {
        "unknown_batches": "{value} rows of matches are of no batch in the ledger",
        "out_of_range": "{value} pairs lie outside what their batch took",
        "pairs_off": "{value} batches have other numbers of pairs than the ledger says",
    },
}
"""Of each check its figures, and the sentence where one is not zero."""


def tables_suite(check: str) -> Callable[[], "ExpectationSuite"]:
    """The suite of a check, made when it is called: each figure is zero."""

    def make() -> "ExpectationSuite":
        import great_expectations as gx
        from great_expectations.expectations import ExpectColumnValuesToBeBetween as Between

        zero = [
            Between(column=figure, min_value=0, max_value=0, meta={"says": sentence})
            for figure, sentence in FIGURES[check].items()
        ]
        return gx.ExpectationSuite(check, expectations=zero)

    return make
