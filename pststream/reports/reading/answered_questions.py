"""Count the answered files of questions, their questions, rejects and rows, from the ledger of these files."""

from pststream import names
from pststream.delta_tables import TableReader
from pststream.domain.arrow_columns import sum_column
from pststream.ledgers.ledger_rows import split_by_status

_COUNTS = ("questions", "rejected", "rows")


def count_questions(reader: TableReader) -> dict[str, int]:
    """Return {"files" (answered), "unfinished" (files that have started), "questions", "rejected", "rows"}."""
    ledger = reader.read(names.QUESTION_FILES, ("question_file", "status", *_COUNTS))
    done, started = split_by_status(ledger, "question_file")
    sums = {name: sum_column(done, name) for name in _COUNTS}
    return {"files": done.num_rows, "unfinished": started.num_rows, **sums}
