"""Commit the data files that the answering of a file of questions has written, once."""

from contextlib import suppress
from dataclasses import replace

from pststream import names
from pststream.delta_tables import last_transaction
from pststream.errors import QuestionsBusy
from pststream.pipeline.questions.question_ledger import QuestionFile, unfinished_files
from pststream.pipeline.questions.written_answers import WrittenAnswers, drop_written, load_written, save_written
from pststream.state.crash_points import crash_point
from pststream.state.data_files import commit_files
from pststream.state.home import Home

APPLICATION = "questions"
"""The application of the transaction ids of files of questions, in the tables' Delta logs."""


def commit_answers(home: Home, file: QuestionFile, written: WrittenAnswers) -> None:
    """Commit the data files of a file of questions, each table once.

    Files are committed in the order of their numbers: none is answered before the one before is committed.
    """
    number = file["question_file"]
    for name, files in written.files.items():
        # Files of a commit that is there already may be compacted since, and belong to older versions of the table.
        if files and last_transaction(home.table(name), APPLICATION) < number:
            commit_files(home, name, files, application=APPLICATION, transaction=number)
        crash_point(f"questions.{name}_committed")


def commit_unfinished_answers(home: Home) -> None:
    """Commit the rows of unfinished files that are all written already, and drop those of files that are answered in
    part; the scope QUESTIONS is locked.

    After it no list in the home names objects, as the bounds of data files do.
    """
    for file in unfinished_files(home):
        written = load_written(home, file)
        if written is not None and written.complete:
            commit_answers(home, file, written)
            save_written(home, file, replace(written, files={}))
        elif written is not None:
            drop_written(home, file, written)


def commit_waiting_answers(home: Home) -> None:
    """Commit the same rows, unless another process answers files now, which commits its own."""
    with suppress(QuestionsBusy), home.locked(names.QUESTIONS, QuestionsBusy):
        commit_unfinished_answers(home)
