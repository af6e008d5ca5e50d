"""Run the command `ask`: answer the questions of files, or one question that options give."""

import re
import time
from argparse import ArgumentParser
from typing import Any

from pststream.cli.command import (
    DONE,
    DONE_WITH_REJECTS,
    CommandContext,
    CommandResult,
    check_output_path,
    refuse_options,
)
from pststream.errors import UsageError
from pststream.escape_text import escape_controls
from pststream.format_values import counted

_NUMBERS = re.compile(r"-[0-9.][0-9.,eE+-]*$")


def add_ask_options(command: ArgumentParser) -> None:
    """Add the options of `ask`."""
    # argparse takes an argument such as -73.9,40.7 for an option unless this pattern matches it.
    command._negative_number_matcher = _NUMBERS
    command.add_argument(
        "files", nargs="*", metavar="FILE", help="files of questions: .jsonl or .parquet; folders, globs"
    )
    command.add_argument("--out", metavar="FILE", help="write the answers here: .csv, .jsonl or .parquet")
    command.add_argument("--strict", action="store_true", help="exit with 3 if questions were rejected")
    one = command.add_argument_group("one question instead of files")
    one.add_argument("--kind", help="range, knn, topk or frequent_terms")
    one.add_argument("--keywords", metavar="EXPRESSION", help="words with AND, OR and parentheses; topk: words alone")
    one.add_argument("--bbox", metavar="W,S,E,N", help="range, frequent_terms: a box, degrees")
    one.add_argument("--circle", metavar="LON,LAT,METRES", help="range, frequent_terms: a circle")
    one.add_argument("--geometry", metavar="GEOJSON", help="range, frequent_terms: a Polygon or MultiPolygon")
    one.add_argument("--limit", metavar="N", help="range: the N newest objects")
    one.add_argument("--point", metavar="LON,LAT", help="knn, topk: where distances are measured from")
    one.add_argument("-k", metavar="K", help="knn, topk, frequent_terms: number of objects or terms")
    one.add_argument("--alpha", metavar="A", help="topk: weight of the place in the score, 0 to 1")
    one.add_argument("--distance-scale-m", metavar="METRES", help="topk: distance from which on the place scores 0")
    one.add_argument(
        "--window", metavar="T", help="only objects of this time before, such as 72h; objects=N: the newest N"
    )
    one.add_argument("--as-of", metavar="TIME", help="only objects up to this time (default: the greatest ts stored)")
    one.add_argument("--version", metavar="V", help="only objects that this version of the table objects has")


def ask_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Answer questions about stored objects."""
    from pststream.questions.typed_question import TYPED_FIELDS

    given = {field: getattr(arguments, field) for field in TYPED_FIELDS if getattr(arguments, field) is not None}
    if arguments.kind is not None:
        refuse_options("ask --kind", {"FILE": arguments.files})
        return _ask_one(context, arguments, {"kind": arguments.kind, **given})
    refuse_options("ask FILE", {_option(field): value for field, value in given.items()})
    if not arguments.files or arguments.out is None:
        raise UsageError("ask needs files and --out FILE, or --kind", "see: pststream ask --help")
    return _ask_files(context, arguments)


def _ask_files(context: CommandContext, arguments: Any) -> CommandResult:
    from pststream.questions.answer_table import ANSWERS
    from pststream.questions.ask import stream_answers
    from pststream.questions.read_questions import read_question_files
    from pststream.table_files import check_export, export_tables

    check_output_path(arguments.out)
    check_export(arguments.out)
    home = context.home.check()
    began = time.perf_counter()
    read = read_question_files(arguments.files, context.settings)
    seconds = {"read": time.perf_counter() - began}
    answers = stream_answers(home, context.settings, read, context.progress)
    began = time.perf_counter()
    rows = export_tables(answers.tables, arguments.out, ANSWERS)
    seconds |= {**answers.seconds, "write": time.perf_counter() - began - answers.seconds["answer"]}
    asked, rejected = len(read.questions) + len(read.rejects), len(answers.rejects)
    document = {
        "questions": asked, "rejected": rejected, "rows": rows, "seconds": seconds,
        "out": arguments.out, "rejects": answers.rejects,
    }  # fmt: skip
    lines = [f"{arguments.out}: {counted(rows, 'row')} for {counted(asked, 'question')}"]
    lines += [f"rejected: {_describe_reject(reject)}" for reject in answers.rejects]
    code = DONE_WITH_REJECTS if arguments.strict and rejected else DONE
    return CommandResult(document, "\n".join(lines), code)


def _describe_reject(reject: dict[str, Any]) -> str:
    fault = f"{reject['file']}:{reject['row']}  {reject['field'] or '(row)'}  {reject['reason']}: {reject['detail']}"
    return escape_controls(f"{fault}  {reject['raw'] or ''}".rstrip())


def _ask_one(context: CommandContext, arguments: Any, given: dict[str, Any]) -> CommandResult:
    from pststream.questions.answer_text import render_answers
    from pststream.questions.ask import answer_questions
    from pststream.questions.read_questions import read_question_records
    from pststream.questions.typed_question import record_of_texts
    from pststream.table_files import check_export, export_tables

    if arguments.out is not None:
        check_output_path(arguments.out)
        check_export(arguments.out)
    home = context.home.check()
    read = read_question_records([record_of_texts(given, _option)], context.settings)
    answered = answer_questions(home, context.settings, read, context.progress)
    for reject in answered.rejects:
        raise UsageError(
            f"{_option(reject['field'])}: {reject['reason']}: {reject['detail']}", "see: pststream ask --help"
        )
    if arguments.out is not None:
        export_tables([answered.answers], arguments.out, answered.answers.schema)
    rows = answered.answers.to_pylist()
    document = {
        "questions": 1, "rejected": 0, "rows": len(rows), "seconds": answered.seconds,
        "answers": [{name: value for name, value in row.items() if name != "question_id"} for row in rows],
    }  # fmt: skip
    return CommandResult(document, render_answers(answered.answers))


def _option(field: str) -> str:
    return "-k" if field == "k" else f"--{field.replace('_', '-')}"
