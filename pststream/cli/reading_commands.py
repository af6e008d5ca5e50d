"""Run the commands that only read a home, such as `status`, `export` and `explain` (none starts Spark), and `bench`."""

import argparse
import json
import os
import re
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.atomic_files import write_atomically
from pststream.base.errors import UsageError
from pststream.base.texts import byte_size, counted, escape_controls
from pststream.base.utc_times import from_micros
from pststream.cli.command import (
    BAD_USAGE,
    DONE,
    DONE_WITH_REJECTS,
    CommandContext,
    CommandResult,
    check_output_path,
    parse_moment,
    refuse_options,
    whole,
)
from pststream.plans.imbalance import imbalance_text


def export_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Write matches, answers of subscriptions with memory, their changes or the term statistics in force to a file."""
    what, out = arguments.what, arguments.out
    if what != "matches":
        refuse_options(f"export {what}", {"--since": arguments.since})
    if what != "changes":
        refuse_options(f"export {what}", {"--since-batch": arguments.since_batch})
    if what == "matches":
        from pststream.reports.commands.listings import export_matches

        since = parse_moment(context, "--since", arguments.since)
        moment = None if since is None else from_micros(since)
        document = export_matches(context.home.check(), out, moment, context.progress)
        return CommandResult(document, f"{document['out']}: {counted(document['rows'], 'match', 'matches')}")
    from pststream.search.answer_files import export_answers, export_changes, export_statistics

    _check_table_path(out)
    home = context.home.check()
    if what == "answers":
        document = export_answers(home, out)
    elif what == "changes":
        document = export_changes(home, out, arguments.since_batch or 0)
    else:
        document = export_statistics(home, context.settings, out)
    text = f"{document['out']}: {counted(document['rows'], 'term' if what == 'term-statistics' else 'row')}"
    if document.get("complete_from", 1) > max(arguments.since_batch or 0, 1):
        text += f"; complete from batch {document['complete_from']} on"
    return CommandResult(document, text)


def _check_table_path(out: str) -> None:
    """Raise UsageError if no table can be written to `out`."""
    from pststream.tables.table_files import check_export

    check_output_path(out)
    check_export(out)


def answers_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the answers of subscriptions with memory."""
    from pststream.reports.commands.listings import list_answers, render_answers

    home = context.home.check()
    document = list_answers(home, arguments.subscription_id, arguments.limit, owner=arguments.owner)
    return CommandResult(document, render_answers(document))


def rejects_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the rejected rows."""
    from pststream.input.row_chunks import REASONS
    from pststream.reports.commands.listings import list_rejects

    if arguments.reason is not None and arguments.reason not in REASONS:
        raise UsageError(f"--reason {arguments.reason}: unknown reason", "one of: " + ", ".join(REASONS))
    rows = list_rejects(context.home.check(), arguments.reason, arguments.limit)
    lines = [
        _describe_reject(row) + (f"  (retried by ingest {row['retried_by']})" if row["retried_by"] else "")
        for row in rows
    ]
    return CommandResult({"rejects": rows}, "\n".join(map(escape_controls, lines)) or "no rejects")


def _describe_reject(row: dict[str, Any]) -> str:
    fault = f"{row['field'] or '(row)'}  {row['reason']}: {row['detail']}"
    return f"{row['file']}:{row['row']}  {fault}  {row['raw'] or ''}"


def list_quarantine_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the quarantined files."""
    from pststream.state.quarantine import QUARANTINED, read_entries

    entries = [hold for hold in read_entries(context.home.check()) if arguments.all or hold["status"] == QUARANTINED]
    lines = []
    for hold in entries:
        path = escape_controls(hold["path"])
        lines.append(f"{hold['hold_id']}  {hold['status']}  {hold['kind']}  {path}  ({byte_size(hold['bytes'])})")
        lines += [f"   {escape_controls(reason)}" for reason in hold["reasons"]]
    shown = [{"at" if name == "written_at" else name: value for name, value in hold.items()} for hold in entries]
    return CommandResult({"quarantine": shown}, "\n".join(lines) or "no file is in quarantine")


def status_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Report the state of a home."""
    from pststream.reports.commands.status import read_status, render_status

    document = read_status(context.home.check(), max_ahead_seconds=context.settings.max_ahead_seconds)
    return CommandResult(document, render_status(document))


def metrics_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Print the figures of a home for Prometheus, or write them to a file."""
    from pststream.reports.commands.metrics import render_metrics

    check_output_path(arguments.out)
    text = render_metrics(context.home.check())
    if arguments.out is None:
        return CommandResult({"metrics": text}, text.rstrip("\n"))
    # Atomically, as the textfile collector of node_exporter requires.
    write_atomically(Path(arguments.out), text.encode(), durable=False)
    return CommandResult({"out": arguments.out, "metrics": text}, f"{arguments.out}: written")


def explain_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Explain why an object did or did not match a subscription."""
    from pststream.reports.commands.explain import explain, render_explain

    document = explain(context.home.check(), arguments.object_id, arguments.subscription_id, owner=arguments.owner)
    return CommandResult(document, render_explain(document))


def plans_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the plans, or show one."""
    from pststream.reports.commands.plans import (
        list_plans,
        render_plan,
        render_plans,
        render_topk_plan,
        show_plan,
        show_topk_plan,
    )

    refuse_options(f"plans {arguments.what}", {"--out": arguments.out, "--planners": arguments.planners})
    home = context.home.check()
    if arguments.what == "list":
        refuse_options("plans list", {"--kinds": arguments.kinds})
        document: Any = list_plans(home)
        return CommandResult({"plans": document}, render_plans(document))
    if arguments.kinds == names.TOPK_KINDS:
        document = show_topk_plan(home, arguments.version)
        return CommandResult(document, render_topk_plan(document))
    document = show_plan(home, arguments.version)
    return CommandResult(document, render_plan(document))


def check_balance_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Report whether the loads of the workers are balanced."""
    from pststream.pipeline.replan.measured_loads import check_balance, needed_batches

    _refuse_changing_options(arguments)
    document = check_balance(context.home, context.settings)
    batches = counted(document["batches"], "batch", "batches")
    relation = "violates" if document["violated"] else "does not violate"
    text = (
        f"plan {document['plan_version']}: the load of {batches} {relation}"
        f" sigma {document['sigma']:g}, measured imbalance {imbalance_text(document['measured_imbalance'])}"
    )
    if document["batches"] < (needed := needed_batches(context.settings)):
        text = f"plan {document['plan_version']}: {batches} measured, {needed} are needed to judge the balance"
    return CommandResult(document, text if document["plan_version"] else "no plan yet")


def _refuse_changing_options(arguments: Any) -> None:
    options = {
        "--method": arguments.method, "--planner": arguments.planner, "--gain": arguments.repartition_gain,
        "--proposal": arguments.proposal, "--page": arguments.page, "--apply": arguments.apply,
        "--dry-run": arguments.dry_run, "--kinds": arguments.kinds,
    }  # fmt: skip
    if arguments.kind != "check":
        options["--sigma"] = arguments.sigma
    refuse_options(f"balance {arguments.kind}", options)


def history_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the plan versions: what each one moved, when, why, and the gain."""
    from pststream.reports.commands.plans import list_plan_history, render_plan_history

    _refuse_changing_options(arguments)
    rows = list_plan_history(context.home.check())
    return CommandResult({"plans": rows}, render_plan_history(rows))


def sql_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Print the statements that create the views in the SQL of another program."""
    from pststream.reports.views import view_statements

    statements = view_statements(context.home.check(), arguments.dialect)
    text = "\n\n".join(f"{statement};" for statement in statements)
    return CommandResult({"dialect": arguments.dialect, "statements": statements}, text)


def report_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Write the report, one self-contained page."""
    from pststream.reports.pages.report_page import write_report

    check_output_path(arguments.out, creates_folder=True)
    context.home.check()
    document = write_report(context.home.path, arguments.out)
    return CommandResult(document, f"page: {arguments.out}")


def doctor_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Check that everything a run needs is there."""
    from pststream.cli.doctor import diagnose

    checks = diagnose(context.home.path)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
        if not check.ok:
            lines.append(f"      {check.remedy}")
    code = DONE if all(check.ok for check in checks) else BAD_USAGE
    return CommandResult({"checks": [asdict(check) for check in checks]}, "\n".join(lines), code)


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
    one.add_argument("--keywords", metavar="EXPRESSION", help="words and phrases with AND, OR, NOT and parentheses")
    one.add_argument("--bbox", metavar="W,S,E,N", help="range, frequent_terms: a box, degrees")
    one.add_argument("--circle", metavar="LON,LAT,METRES", help="range, frequent_terms: a circle")
    one.add_argument("--geometry", metavar="GEOJSON", help="range, frequent_terms: a Polygon or MultiPolygon")
    one.add_argument("--limit", metavar="N", help="range: the N newest objects")
    one.add_argument("--point", metavar="LON,LAT", help="knn, topk: where distances are measured from")
    one.add_argument("-k", metavar="K", help="knn, topk, frequent_terms: number of objects or terms")
    one.add_argument("--alpha", metavar="A", help="topk: weight of the place in the score, 0 to 1")
    one.add_argument(
        "--distance-scale-m", metavar="METRES", help="topk: distance from which on the place scores 0 (default 25000)"
    )
    one.add_argument("--max-distance-m", metavar="METRES", help="knn: objects farther away do not count")
    one.add_argument("--stop-words", metavar="LANGUAGE", help="frequent_terms: words that do not count; or a JSON list")
    one.add_argument(
        "--window", metavar="T", help="only objects of this time before, such as 72h; objects=N: the newest N"
    )
    one.add_argument("--where", metavar="JSON", help="condition on attributes, an object as in docs/subscriptions.md")
    one.add_argument("--as-of", metavar="TIME", help="only objects up to this time (default: the greatest ts stored)")
    one.add_argument("--version", metavar="V", help="only objects that this version of the table objects has")


def ask_command(context: CommandContext, arguments: Any) -> CommandResult:
    """Answer questions about stored objects."""
    from pststream.search.ask import TYPED_FIELDS

    given = {field: getattr(arguments, field) for field in TYPED_FIELDS if getattr(arguments, field) is not None}
    if arguments.kind is not None:
        refuse_options("ask --kind", {"FILE": arguments.files})
        return _ask_one(context, arguments, {"kind": arguments.kind, **given})
    refuse_options("ask FILE", {_option(field): value for field, value in given.items()})
    if not arguments.files or arguments.out is None:
        raise UsageError("ask needs files and --out FILE, or --kind", "see: pststream ask --help")
    return _ask_files(context, arguments)


def _ask_files(context: CommandContext, arguments: Any) -> CommandResult:
    from pststream.search.ask import ASKED, stream_answers
    from pststream.search.read_questions import read_question_files
    from pststream.tables.table_files import export_tables

    _check_table_path(arguments.out)
    home = context.home.check()
    began = time.perf_counter()
    read = read_question_files(arguments.files, context.settings)
    seconds = {"read": time.perf_counter() - began}
    answers = stream_answers(home, context.settings, read, context.progress)
    began = time.perf_counter()
    rows = export_tables(answers.tables, arguments.out, ASKED, json_columns=("attributes",))
    seconds |= {**answers.seconds, "write": time.perf_counter() - began - answers.seconds["answer"]}
    asked, rejected = len(read.questions) + len(read.rejects), len(answers.rejects)
    document = {
        "questions": asked, "rejected": rejected, "rows": rows, "seconds": seconds,
        "out": arguments.out, "rejects": answers.rejects,
    }  # fmt: skip
    lines = [f"{arguments.out}: {counted(rows, 'row')} for {counted(asked, 'question')}"]
    for reject in answers.rejects:
        lines.append("rejected: " + escape_controls(_describe_reject(reject).rstrip()))
    code = DONE_WITH_REJECTS if arguments.strict and rejected else DONE
    return CommandResult(document, "\n".join(lines), code)


def _ask_one(context: CommandContext, arguments: Any, given: dict[str, Any]) -> CommandResult:
    from pststream.search.answer_rows import render_answers
    from pststream.search.ask import record_of_texts, stream_answers
    from pststream.search.read_questions import read_question_records
    from pststream.tables.table_files import export_tables, read_attributes

    if arguments.out is not None:
        _check_table_path(arguments.out)
    home = context.home.check()
    read = read_question_records([record_of_texts(given, _option)], context.settings)
    answered = stream_answers(home, context.settings, read, context.progress)
    for reject in answered.rejects:
        raise UsageError(
            f"{_option(reject['field'])}: {reject['reason']}: {reject['detail']}", "see: pststream ask --help"
        )
    answers = answered.read_all()
    if arguments.out is not None:
        export_tables([answers], arguments.out, answers.schema, json_columns=("attributes",))
    rows = [row | {"attributes": read_attributes(row["attributes"])} for row in answers.to_pylist()]
    document = {
        "questions": 1, "rejected": 0, "rows": len(rows), "seconds": answered.seconds,
        "answers": [{name: value for name, value in row.items() if name != "question_id"} for row in rows],
    }  # fmt: skip
    return CommandResult(document, render_answers(answers))


def _option(field: str) -> str:
    return "-k" if field == "k" else f"--{field.replace('_', '-')}"


def add_bench_options(bench: argparse.ArgumentParser) -> None:
    """Add the options of `bench`."""
    bench.add_argument("what", choices=("list", "run"))
    bench.add_argument("name", nargs="?", help="for `run`: a benchmark, as `list` shows them")
    bench.add_argument("--scale", choices=("small", "full"), default="small", help="default %(default)s")
    bench.add_argument("--seed", type=whole, default=1, help="default %(default)s")
    bench.add_argument("--out", metavar="FILE", help="also write the JSON document to this file")
    bench.add_argument("--workloads", metavar="A,B", help="of the benchmarks of planners: only these")
    bench.add_argument(
        "--objects",
        metavar="FILE",
        help="of the benchmarks of planners: objects of this file (lon, lat, text) in place of synthetic ones",
    )


def bench_command(context: CommandContext, arguments: Any) -> CommandResult:
    """List the benchmarks, or run one."""
    _find_benchmarks()
    from benchmarks.registry import BENCHMARKS, run_benchmark

    if arguments.what == "list":
        listed = {name: BENCHMARKS[name].meaning for name in sorted(BENCHMARKS)}
        width = max(map(len, listed))
        return CommandResult(listed, "\n".join(f"{name:{width}}  {meaning}" for name, meaning in listed.items()))
    if arguments.name is None:
        raise UsageError("bench run: name a benchmark", "pststream bench list shows them")
    if arguments.name not in BENCHMARKS:
        raise UsageError(f"benchmark {arguments.name!r} is unknown", "one of: " + ", ".join(sorted(BENCHMARKS)))
    check_output_path(arguments.out)
    document = run_benchmark(
        arguments.name,
        arguments.scale,
        arguments.seed,
        context.settings,
        context.progress,
        workloads=() if arguments.workloads is None else arguments.workloads.split(","),
        objects=arguments.objects,
    )
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return CommandResult(document, json.dumps(document, indent=1))


def _find_benchmarks() -> None:
    """Let this process and those that it starts import `benchmarks`; raise UsageError outside of a clone."""
    clone = str(Path(__file__).resolve().parents[2])
    if not Path(clone, "benchmarks", "registry.py").exists():
        raise UsageError("the package contains no benchmarks", "clone the project, and run `make setup` there")
    if clone not in sys.path:
        sys.path.append(clone)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), clone]))
