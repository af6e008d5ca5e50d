"""Commands that change a home, or run the main job."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pststream import names
from pststream.cli.command import DONE, DONE_WITH_REJECTS, FAILED, Answer, Context, check_out, refuse
from pststream.errors import UsageError
from pststream.escape_text import escape_controls


def init(context: Context, arguments: Any) -> Answer:
    """Make a home."""
    new = context.home.init()
    text = f"{context.home.path}: " + (
        "ready; settings in pststream.toml" if new else "was there already, and is whole"
    )
    return Answer({"home": context.home.path, "created": new}, text)


def upgrade(context: Context, arguments: Any) -> Answer:
    """Bring a home up to this version's format."""
    from pststream.state.upgrade import upgrade as bring_up

    document = bring_up(context.home)
    before, now = document["format_before"], document["format"]
    return Answer(document, f"format {before} -> {now}" if before < now else f"format {now}: nothing to do")


def ingest(context: Context, arguments: Any) -> Answer:
    """Take files into the log."""
    from pststream.pipeline.ingest.ingest import ingest as take_in

    if arguments.kind == "requests":
        refuse("ingest requests", {"--column": arguments.column, "--constant": arguments.constant})
    document = take_in(
        context.home, context.settings, arguments.kind, arguments.paths, reader_options(context, arguments), context.say
    )
    return Answer(document, _ingested(arguments.kind, document), _strict(arguments, [document]))


def _strict(arguments: Any, ingests: list[dict[str, Any]]) -> int:
    unclean = any(one["rejected"] or one["quarantined"] for one in ingests)
    return DONE_WITH_REJECTS if arguments.strict and unclean else DONE


def _ingested(kind: str, document: dict[str, Any]) -> str:
    text = f"{kind}: {document['files']} files ({document['files_skipped']} known before)"
    text += f", {document['accepted']} rows accepted"
    if document["rejected"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in document["rejects_by_reason"].items())
        text += f", {document['rejected']} rejected: {reasons}\n  see: pststream rejects"
    for hold in document["quarantined"]:
        text += "\n  " + escape_controls(
            f"held in quarantine as {hold['hold_id']}: {hold['path']}: {'; '.join(hold['reasons'])}"
        )
    if document["quarantined"]:
        text += "\n  see: pststream quarantine list"
    if document["files_pending"]:
        first = document["pending"][0]
        oldest = escape_controls(f"{first['path']}: {first['reason']}")
        text += f"\n  {document['files_pending']} files pending, the oldest: {oldest}"
    return text


def quarantine(context: Context, arguments: Any) -> Answer:
    """Take held files in all the same, or give them up."""
    if not arguments.holds:
        raise UsageError(f"quarantine {arguments.what}: of which file?", "give numbers of: pststream quarantine list")
    if arguments.what == "discard":
        from pststream.state.quarantine import discard

        rows = discard(context.home, arguments.holds)
        gone = [{"hold_id": row["hold_id"], "path": row["path"]} for row in rows]
        lines = [escape_controls(f"discarded: {row['path']}") for row in rows]
        return Answer({"discarded": gone}, "\n".join(lines) or "nothing to do")
    from pststream.pipeline.ingest.ingest import release

    document = release(context.home, context.settings, arguments.holds, context.say)
    return Answer(document, _ingested("released", document))


def reader_options(context: Context, arguments: Any) -> Any:
    """How files are read, from the arguments; raises UsageError for what makes no sense."""
    from pststream.pipeline.ingest.ingest import ReaderOptions

    columns = tuple((field, tuple(names.split("+"))) for field, names in _assignments("--column", arguments.column))
    constants = tuple(_assignments("--constant", arguments.constant))
    return ReaderOptions(
        arguments.format, columns, constants, context.settings.timezone, context.settings.max_text_bytes
    )


def _assignments(option: str, texts: list[str]) -> list[tuple[str, str]]:
    fields = ("object_id", "ts", "lon", "lat", "text")
    found: dict[str, str] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not value or field not in fields:
            raise UsageError(f"{option} {text}: not FIELD=VALUE", "fields: " + ", ".join(fields))
        if (option, field) == ("--constant", "object_id"):
            raise UsageError(f"{option} {text}: one id cannot be that of all rows", "--column object_id=@row")
        if field in found:
            raise UsageError(f"{option} {text}: {field} is given twice", "one source a field; text=a+b joins columns")
        found[field] = value
    return list(found.items())


def plan(context: Context, arguments: Any) -> Answer:
    """Make a new plan version."""
    from pststream.pipeline.planning.plan import plan as make

    versions = (arguments.from_version, arguments.to_version)
    document = make(context.home, context.settings, dry_run=arguments.dry_run, versions=versions, progress=context.say)
    kind = "would be" if arguments.dry_run else "is"
    text = (
        f"plan {document['plan_version']} {kind} {document['planner']} over {document['workers']} workers,"
        f" {document['units']} units: load {document['load_total']:.4g} s in all,"
        f" {document['load_max']:.4g} s the most loaded, imbalance {document['imbalance']:.3g}"
    )
    return Answer(document, text)


def compare_plans(context: Context, arguments: Any) -> Answer:
    """Which planner is best for this home, by running each."""
    from pststream.pipeline.comparing.compare_planners import compare
    from pststream.reports.pages.comparison_page import render_comparison, write_comparison

    planners = arguments.planners.split(",") if arguments.planners else tuple(names.PLANNERS)
    unknown = [name for name in planners if name not in names.PLANNERS]
    if unknown:
        raise UsageError(f"planner {unknown[0]!r} is unknown", "some of: " + ", ".join(names.PLANNERS))
    check_out(arguments.out)
    document = compare(context.home, context.settings, planners, arguments.objects, progress=context.say)
    if arguments.out:
        write_comparison(document, arguments.out)
        document["out"] = arguments.out
    return Answer(document, render_comparison(document))


def balance(context: Context, arguments: Any) -> Answer:
    """Move subscriptions between workers until their loads are balanced, or take that back."""
    from pststream.pipeline.adjusting.balance import balance as adjust

    if arguments.kind != "local":
        refuse(f"balance {arguments.kind}", {"--method": arguments.method, "--sigma": arguments.sigma})
    if arguments.kind != "global":
        refuse(f"balance {arguments.kind}", {"--planner": arguments.planner, "--gain": arguments.repartition_gain})
    check_out(arguments.page, "--page", folder_is_made=True)
    check_out(arguments.proposal, "--proposal", folder_is_made=True)
    document = adjust(
        context.home,
        context.settings,
        arguments.kind,
        method=arguments.method or "gr",
        dry_run=not arguments.apply,
        proposal=arguments.proposal,
        page=arguments.page,
        progress=context.say,
    )
    return Answer(document, _balanced(document))


def _balanced(document: dict[str, Any]) -> str:
    if not document["moves"]:
        return f"nothing to move: {document['reason']}"
    would = "would move" if document["dry_run"] else "moved"
    lines = [
        f"{would} {document['moved_subscriptions']} subscriptions, about {document['moved_bytes']:,} bytes:"
        f" plan {document['plan_version_before']} to {document['plan_version_after']} ({document['reason']})"
    ]
    if document["retiring_version"] is not None:
        lines.append(f"  plan {document['retiring_version']} goes on serving the subscriptions that there are")
    for move in document["moves"]:
        what = f"{move['cells']} cells" if move["terms"] is None else f"{move['terms']} terms of {move['cells']} cells"
        whence = f" from worker {move['origin']} to {move['target']}" if move["origin"] >= 0 else ""
        lines.append(f"  {what}{whence} ({move['reason']})")
    lines += ["worker  load before  load after"]
    loads = zip(document["load_before"], document["load_after"])
    lines += [f"{worker:6}  {before:11.4g}  {after:10.4g}" for worker, (before, after) in enumerate(loads)]
    if document["dry_run"]:
        lines.append("to do it: the same command with --apply")
    return "\n".join(lines)


def match(context: Context, arguments: Any) -> Answer:
    """Run micro-batches."""
    from pststream.pipeline.batch.micro_batch import match as run_batches

    document = run_batches(
        context.home, context.settings, max_objects=arguments.max_objects, one=arguments.one, progress=context.say
    )
    return Answer(document, _matched(document))


def _matched(document: dict[str, Any]) -> str:
    if not document["batches"]:
        return "nothing is pending"
    return f"{len(document['batches'])} batches: {document['objects']} objects, {document['matches']} matches"


def run(context: Context, arguments: Any) -> Answer:
    """Ingest, match and deliver what is new in a landing folder."""
    from pststream.cli.delivery_commands import delivered
    from pststream.pipeline.main_job.run import check_landing
    from pststream.pipeline.main_job.run import run as main_job

    options = reader_options(context, arguments)
    if arguments.watch:
        refuse("run --watch", {"--strict": arguments.strict})
    check_landing(arguments.landing)
    context.home.init()
    settings = replace(context.settings, sinks=()) if arguments.no_deliver else context.settings
    if arguments.watch:
        return _watch(replace(context, settings=settings), arguments, options)
    document = main_job(context.home, settings, arguments.landing, options, arguments.max_objects, context.say)
    lines = [_ingested(kind, figures) for kind, figures in document["ingest"].items()] + [_matched(document["match"])]
    lines += [delivered(document["deliver"])] if settings.sinks else []
    return Answer(document, "\n".join(lines), _strict(arguments, list(document["ingest"].values())))


def _watch(context: Context, arguments: Any, options: Any) -> Answer:
    """The main job until SIGTERM or SIGINT."""
    from pststream.pipeline.main_job.watch import watch

    document = watch(context.home, context.settings, arguments.landing, options, arguments.max_objects, context.say)
    text = f"{document['batches']} batches: {document['objects']} objects, {document['matches']} matches"
    return Answer(document, text)


def check(context: Context, arguments: Any) -> Answer:
    """Check the tables against each other; exit code 1 if something is wrong."""
    from pststream.pipeline.upkeep.check_tables import check as run_checks

    document = run_checks(context.home, context.settings, everything=arguments.all, progress=context.say)
    lines = []
    for one in document["checks"]:
        lines.append(f"{'ok  ' if one['success'] else 'FAIL'}  {one['check']} ({one['seconds']:.1f} s)")
        lines += [f"      {sentence}" for sentence in one["failed"]]
    return Answer(document, "\n".join(lines), DONE if document["success"] else FAILED)


def backup(context: Context, arguments: Any) -> Answer:
    """Copy a home as it stands at one moment."""
    from pststream.pipeline.upkeep.backup import backup as copy

    document = copy(context.home, arguments.out)
    return Answer(document, f"{document['out']}: {document['files']} files, {document['bytes']:,} bytes")


def maintain(context: Context, arguments: Any) -> Answer:
    """Merge small index files, drop what ended."""
    from pststream.pipeline.upkeep.maintain import maintain as upkeep

    document = upkeep(context.home, context.settings)
    files = f"index files {document['files_before']} -> {document['files_after']}"
    text = f"{document['dropped_rows']} ended rows dropped; {files}; {document['files_removed']} old files removed"
    return Answer(document, text)


def generate(context: Context, arguments: Any) -> Answer:
    """Write a synthetic workload."""
    from pststream.generator.generate_files import write_objects, write_requests
    from pststream.generator.object_sample import sample_of_file

    began = dt.datetime.now()
    if arguments.what == "objects":
        written = write_objects(arguments.out, arguments.count, arguments.seed)
    else:
        written = write_requests(
            arguments.out,
            arguments.count,
            arguments.seed,
            kind=arguments.kind,
            objects=sample_of_file(arguments.objects, arguments.seed) if arguments.objects else None,
            deletions=arguments.lifetime is not None,
            mean_lifetime=arguments.lifetime,
            drift_every=arguments.drift_every,
        )
    seconds = (dt.datetime.now() - began).total_seconds()
    document = {"out": written.path, "rows": written.rows, "bytes": written.bytes, "seconds": seconds}
    return Answer(document, f"{written.path}: {written.rows} {arguments.what}")


def demo(context: Context, arguments: Any) -> Answer:
    """The main job on data that it makes."""
    from pststream.pipeline.main_job.demo import demo as show

    document = show(arguments.out, context.settings, context.say)
    text = (
        f"{document['objects']} objects met {document['subscriptions']} subscriptions: {document['matches']} matches"
        f" in {document['seconds']:.0f} s\n"
        f"page:   {document['report']}\nhome:   {document['home']}\ntry:    pststream status --home {document['home']}"
    )
    return Answer(document, text)


def bench(context: Context, arguments: Any) -> Answer:
    """List the benchmarks, or run one."""
    from pststream.benchmarks.registry import BENCHMARKS, run_benchmark

    if arguments.what == "calibrate":
        return _calibrate(context, arguments)
    if arguments.what == "list":
        listed = {name: benchmark.meaning for name, benchmark in BENCHMARKS.items()}
        return Answer(listed, "\n".join(f"{name:14} {meaning}" for name, meaning in listed.items()))
    if arguments.name not in BENCHMARKS:
        raise UsageError(f"benchmark {arguments.name!r} is unknown", "one of: " + ", ".join(BENCHMARKS))
    check_out(arguments.out)
    document = run_benchmark(arguments.name, arguments.scale, arguments.seed, context.settings, context.say)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return Answer(document, json.dumps(document, indent=1))


def _calibrate(context: Context, arguments: Any) -> Answer:
    """Measure the constants of the cost model and write them into the home's settings."""
    from pststream.benchmarks.registry import run_benchmark
    from pststream.settings import write_settings

    refuse("bench calibrate", {"--out": arguments.out})
    home = context.home.check()
    document = run_benchmark("calibrate", arguments.scale, arguments.seed, context.settings, context.say)
    found = {name: value for name, value in document["figures"].items() if name.startswith("cost_")}
    write_settings(home.path, found)
    lines = [f"{name} = {value:.3g}" for name, value in found.items()]
    return Answer(
        document, "\n".join([*lines, f"written to {home.path}/pststream.toml; plans made from now on use them"])
    )
