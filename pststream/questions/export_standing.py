"""Write the answers of subscriptions with memory, or their changes, to a file (`export answers`, `export changes`)."""

from typing import Any

from pststream.delta_tables import AnyHome, TableReader
from pststream.reports.reading.standing_answers import ANSWERS, CHANGES, StandingAnswers
from pststream.table_files import export_tables


def export_answers(home: AnyHome, out: str) -> dict[str, Any]:
    """Write the answers after the last batch, by subscription in the order of insertion, and rank.

    Memory holds the answers of 262,144 subscriptions, and their changes since the last snapshot. Returns {"out",
    "rows"}; raises UsageError for a file name that cannot be used.
    """
    rows = export_tables(StandingAnswers(TableReader(home)).answers(), out, ANSWERS)
    return {"out": out, "rows": rows}


def export_changes(home: AnyHome, out: str, since_batch: int = 0) -> dict[str, Any]:
    """Write what the batches from `since_batch` on changed in answers, in their order.

    Memory holds the changes of one batch, or of several small ones. Returns {"out", "rows", "complete_from"}: of
    batches before `complete_from`, only changes that the answers still need are left (setting `keep`). Raises
    UsageError for a file name that cannot be used.
    """
    answers = StandingAnswers(TableReader(home))
    rows = export_tables(answers.changes(since_batch), out, CHANGES)
    return {"out": out, "rows": rows, "complete_from": answers.complete_from}
